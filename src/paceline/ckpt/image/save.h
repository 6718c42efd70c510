#pragma once

// One save: the tensors of a rank, copied into a slot of its arena as the file that they will be.
// What a save costs beyond the copy is a look at the slots and a few words: the layout was made
// before, and nothing is allocated, asked or sent.

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
  std::string_view notes = {};         // small state that is no tensor; see docs/formats/notes.md
  std::optional<SavedStep> keep = {};  // the save whose image must stay; see ChooseSlot
};

// The room that a file with such notes takes in a slot.
constexpr uint64_t ImageBytes(uint64_t file_bytes, uint64_t notes_bytes) {
  return NotesAt(file_bytes) + notes_bytes;
}

// All of an image: its headers, and the bytes of its boxes where `sources` says.
void AppendImage(ChunkCopier* copier, const Image& layout, std::span<const void* const> sources);

// Takes a slot for an image of that layout, to be filled and then sealed or given up. kBusy: no
// slot may be taken now. kTooLarge: the arena's images are too small.
Result<uint32_t> BeginImage(Arena* arena, const Image& layout, const SaveStep& what);
void SealImage(Arena* arena, uint32_t slot, const Image& layout, const SaveStep& what,
               std::span<const uint64_t> file_hashes, std::span<const uint64_t> notes_hashes);

// Both, and between them the copy: `sources[i]` holds the bytes of layout.boxes[i], in C order;
// nobody changes them meanwhile. Fails as BeginImage.
Result<void> Save(Arena* arena, const Image& layout, std::span<const void* const> sources,
                  const SaveStep& what);

}  // namespace paceline::ckpt
