#pragma once

// One save: copies a rank's tensors into a slot of its arena, in the form of the later file. Beside
// the copy a save only looks at the slots: the layout is made before, and nothing is allocated or
// sent.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "paceline/base/result.h"
#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::ckpt {

struct SaveStep {
  SavedStep saved;
  uint64_t world_size = 1;
  bool is_replica = false;             // all ranks hold the same tensors
  std::string_view notes = {};         // small state as JSON; see docs/formats/notes.md
  std::optional<SavedStep> keep = {};  // the save whose image must stay; see ChooseSlot
};

// The room in a slot for a file with such notes.
constexpr uint64_t ImageBytes(uint64_t file_bytes, uint64_t notes_bytes) {
  return NotesAt(file_bytes) + notes_bytes;
}

// Appends a whole image: its headers, and its boxes' bytes from `sources`.
void AppendImage(ChunkCopier* copier, const Image& layout, std::span<const void* const> sources);

// Takes a slot for an image of that layout. The caller fills it, then seals it or gives it up.
// kBusy: no slot is free now. kTooLarge: the arena's images are too small.
Result<uint32_t> BeginImage(Arena* arena, const Image& layout, const SaveStep& what);
void SealImage(Arena* arena, uint32_t slot, const Image& layout, const SaveStep& what,
               std::span<const uint64_t> file_hashes, std::span<const uint64_t> notes_hashes);

// BeginImage, the copy, and SealImage. `sources[i]` has the bytes of layout.boxes[i] in C order and
// must not change meanwhile. Fails as BeginImage.
Result<void> Save(Arena* arena, const Image& layout, std::span<const void* const> sources,
                  const SaveStep& what);

}  // namespace paceline::ckpt
