#pragma once

// One save: the tensors of a rank, copied into a slot of its arena as the file that they will be.
// What a save costs beyond the copy is a look at the slots and a few words: the layout was made
// before, and nothing is allocated, asked or sent.

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "paceline/ckpt/arena.h"
#include "paceline/ckpt/format/safetensors.h"

namespace paceline::ckpt {

struct SaveStep {
  uint64_t generation = 0;
  int64_t step = 0;
  std::optional<int64_t> keep = {};  // a step whose image must stay; see ChooseSlot
};

// `sources[i]` holds the bytes of layout.boxes[i], in C order; nobody changes them meanwhile.
// UNAVAILABLE: no slot may be taken now. OUT_OF_RANGE: the arena's images are too small.
absl::Status Save(Arena* arena, const Image& layout, std::span<const void* const> sources,
                  const SaveStep& what);

}  // namespace paceline::ckpt
