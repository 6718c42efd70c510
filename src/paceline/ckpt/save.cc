#include "paceline/ckpt/save.h"

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/chunk_copy.h"

namespace paceline::ckpt {

absl::Status Save(Arena* arena, const Image& layout, std::span<const void* const> sources,
                  const SaveStep& what) {
  CHECK(sources.size() == layout.boxes.size(), "a source for each tensor");
  if (layout.size > arena->image_bytes_max()) {
    return MakeStatus(absl::StatusCode::kOutOfRange,
                      Concat("an image of ", layout.size, " bytes does not fit into slots of ",
                             arena->image_bytes_max()));
  }
  const std::optional<uint32_t> slot = arena->BeginWrite(what.keep);
  if (!slot.has_value()) return absl::UnavailableError("every slot is in use");
  ChunkCopier copier(arena->image(*slot), layout.size);
  copier.Append(layout.head.data(), layout.head.size());
  for (size_t i = 0; i < sources.size(); ++i) copier.Append(sources[i], layout.boxes[i].bytes);
  arena->Seal({.slot = *slot,
               .generation = what.generation,
               .step = what.step,
               .image_bytes = layout.size,
               .head_bytes = layout.head.size()},
              copier.Finish());
  return absl::OkStatus();
}

}  // namespace paceline::ckpt
