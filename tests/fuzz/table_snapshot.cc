// Snapshots of tables: an image of a partition, or the end of a file with its index. The first byte
// says which. Hashes are made right before the bytes are read, so that what follows them is
// reached.

#include <cstdint>
#include <cstring>
#include <string>

#include "paceline/ps/holding.h"
#include "paceline/ps/partition_image.h"
#include "paceline/ps/snapshot.h"
#include "parts.h"

namespace {

using paceline::fuzz::Demand;
using paceline::ps::Holding;
using paceline::ps::kSnapshotTrailerBytes;

void Put(uint64_t value, size_t at, std::string* bytes) {
  std::memcpy(bytes->data() + at, &value, sizeof(value));
}

void TryImage(const std::string& image) {
  Holding holding;
  const auto loaded = holding.LoadPartition(image);
  if (!loaded.ok()) {
    Demand(!loaded.failure().message.empty(), "a refusal has a reason");
    Demand(holding.tables() == 0, "and changes nothing");
    return;
  }
  Demand(holding.SavePartition(*loaded) == image, "a partition has one image");
}

void TryImageWithHash(std::string image) {
  TryImage(image);
  constexpr size_t kHead = 24;
  if (image.size() < kHead) return;
  Put(image.size(), 16, &image);
  Put(paceline::ps::HashOfBytes(std::string_view(image).substr(16)), 8, &image);
  TryImage(image);
}

void TryFile(const std::string& file) {
  if (file.size() < kSnapshotTrailerBytes) return;
  const std::string_view all(file);
  const auto place =
      paceline::ps::ReadTrailer(all.substr(all.size() - kSnapshotTrailerBytes), all.size());
  if (!place.ok()) return;
  Demand(place->offset + place->size + kSnapshotTrailerBytes == all.size(), "it lies in the file");
  const auto index = paceline::ps::ReadIndex(all.substr(place->offset, place->size), *place);
  if (!index.ok()) return;
  for (const auto& [partition, part] : index->partitions) {
    Demand(partition < paceline::ps::kPartitions, "a partition of a job");
    Demand(part.offset <= place->offset && part.size <= place->offset - part.offset,
           "every partition lies before the index");
    TryImage(std::string(all.substr(part.offset, part.size)));
  }
}

void TryFileWithHash(std::string file) {
  TryFile(file);
  if (file.size() < kSnapshotTrailerBytes) return;
  const size_t trailer = file.size() - kSnapshotTrailerBytes;
  uint64_t offset = 0;
  std::memcpy(&offset, file.data() + trailer + 24, sizeof(offset));
  offset %= trailer + 1;
  const std::string_view all(file);
  const uint64_t hash = paceline::ps::HashOfBytes(all.substr(offset, trailer - offset));
  Put(file.size(), trailer + 16, &file);
  Put(offset, trailer + 24, &file);
  Put(trailer - offset, trailer + 32, &file);
  Put(hash, trailer + 40, &file);
  Put(paceline::ps::HashOfBytes(std::string_view(file).substr(trailer + 16)), trailer + 8, &file);
  TryFile(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = paceline::fuzz::AsText(data, size);
  if (bytes.empty()) return 0;
  const std::string rest(bytes.substr(1));
  if (bytes[0] == 'f') {
    TryFileWithHash(rest);
  } else {
    TryImageWithHash(rest);
  }
  return 0;
}
