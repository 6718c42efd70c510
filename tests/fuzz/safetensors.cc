// The header of a checkpoint file, which may come from anybody.

#include <cstdint>

#include "paceline/ckpt/format/safetensors.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace ckpt = paceline::ckpt;
  // The first byte says how many bytes of data stand behind the header.
  if (size == 0) return 0;
  const std::string_view head = paceline::fuzz::AsText(data + 1, size - 1);
  const uint64_t file_size = head.size() + data[0];
  const auto image = ckpt::ParseHead(head, file_size);
  if (!image.ok()) return 0;
  uint64_t covered = image->head.size();
  for (const ckpt::TensorBox& box : image->boxes) {
    paceline::fuzz::Demand(box.begin + box.bytes <= file_size, "a tensor lies inside its file");
    paceline::fuzz::Demand(box.offset.size() == box.shape.size(), "an offset a dimension");
    covered += box.bytes;
  }
  paceline::fuzz::Demand(covered == file_size, "every byte is somebody's");
  const auto again = ckpt::LayOut(image->boxes, {});
  if (!again.ok()) return 0;  // too large with our own metadata
  paceline::fuzz::Demand(ckpt::ParseHead(again->head, again->size).ok(), "what we write we read");
  return 0;
}
