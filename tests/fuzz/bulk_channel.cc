// Requests and answers of the bulk channel: the first byte says which, the rest is what came behind
// the length.

#include <cstdint>

#include "paceline/wire/bulk/bulk_format.h"
#include "parts.h"

namespace {

using paceline::fuzz::Demand;
namespace wire = paceline::wire;

void TryRequest(std::string_view bytes) {
  const auto request = wire::ParseBulkRequest(bytes);
  if (!request.ok()) return;
  if (request->stored.has_value()) {
    const paceline::StoredChunk& chunk = *request->stored;
    Demand(chunk.bytes() > 0 && chunk.bytes() <= wire::kBulkChunkBytes, "a chunk has bytes");
  }
  Demand(request->place.find('/') == std::string::npos, "a place is no path");
  Demand(wire::EncodeBulk(*request).substr(4) == bytes, "a request reads as it was written");
}

void TryAnswer(std::string_view bytes) {
  const auto answer = wire::ParseBulkAnswer(bytes);
  if (!answer.ok()) return;
  uint64_t sum = 0;
  for (size_t chunk = 0; chunk < answer->facts.hashes.size(); ++chunk) {
    const uint64_t size = answer->facts.BytesOf(chunk);
    Demand(size > 0 && size <= wire::kBulkChunkBytes, "a chunk has bytes, and not too many");
    sum += size;
  }
  Demand(sum == answer->facts.file_bytes + answer->facts.notes_bytes, "every byte is in a chunk");
  Demand(wire::EncodeBulk(*answer).substr(4) == bytes, "an answer reads as it was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes = paceline::fuzz::AsText(data + 1, size - 1);
  if (data[0] == 'q') TryRequest(bytes);
  if (data[0] == 'a') TryAnswer(bytes);
  return 0;
}
