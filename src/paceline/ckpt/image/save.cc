#include "paceline/ckpt/image/save.h"

#include "paceline/base/check.h"
#include "paceline/base/result.h"
#include "paceline/base/text.h"

namespace paceline::ckpt {

void AppendImage(ChunkCopier* copier, const Image& layout, std::span<const void* const> sources) {
  CHECK(sources.size() == layout.boxes.size(), "a source for each tensor");
  copier->Append(layout.head.data(), layout.head.size());
  bool is_second = false;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (layout.boxes[i].is_frozen && !is_second) {
      copier->Append(layout.second_head.data(), layout.second_head.size());
      is_second = true;
    }
    copier->Append(sources[i], layout.boxes[i].bytes);
  }
}

Result<uint32_t> BeginImage(Arena* arena, const Image& layout, const SaveStep& what) {
  const uint64_t bytes = ImageBytes(layout.size, what.notes.size());
  if (bytes > arena->image_bytes_max()) {
    return Failure{FailureKind::kTooLarge,
                   Concat("an image of ", bytes, " bytes does not fit into slots of ",
                          arena->image_bytes_max())};
  }
  const std::optional<uint32_t> slot = arena->BeginWrite(what.keep);
  if (!slot.has_value()) return Failure{FailureKind::kBusy, "every slot is in use"};
  return *slot;
}

void SealImage(Arena* arena, uint32_t slot, const Image& layout, const SaveStep& what,
               std::span<const uint64_t> file_hashes, std::span<const uint64_t> notes_hashes) {
  arena->Seal({.slot = slot,
               .generation = what.saved.generation,
               .step = what.saved.step,
               .world_size = what.world_size,
               .file_bytes = layout.size,
               .head_bytes = layout.head.size(),
               .notes_bytes = what.notes.size(),
               .flags = what.is_replica ? kArenaReplica : 0,
               .branch = what.saved.branch},
              file_hashes, notes_hashes);
}

Result<void> Save(Arena* arena, const Image& layout, std::span<const void* const> sources,
                  const SaveStep& what) {
  ASSIGN_OR_RETURN(const uint32_t slot, BeginImage(arena, layout, what));
  std::byte* const image = arena->image(slot);
  ChunkCopier file(image, layout.size);
  AppendImage(&file, layout, sources);
  const std::vector<uint64_t>& file_hashes = file.Finish();
  ChunkCopier notes(image + NotesAt(layout.size), what.notes.size());
  notes.Append(what.notes.data(), what.notes.size());
  SealImage(arena, slot, layout, what, file_hashes, notes.Finish());
  return {};
}

}  // namespace paceline::ckpt
