#include "paceline/ps/snapshot.h"

#include <algorithm>

#include "paceline/base/check.h"
#include "paceline/ps/byte_cursor.h"
#include "paceline/ps/partition_image.h"

namespace paceline::ps {
namespace {

constexpr std::string_view kTrailerMagic = "PLTABLE1";
constexpr size_t kTrailerHashedFrom = 16;

Failure DamagedFile(const std::string& rule) {
  return {FailureKind::kDamaged, "a snapshot of tables is damaged: " + rule};
}

std::string WriteIndex(const SnapshotIndex& index) {
  std::string bytes;
  AppendNumber(static_cast<uint32_t>(index.tables.size()), &bytes);
  AppendNumber(static_cast<uint32_t>(index.partitions.size()), &bytes);
  for (const TableSpec& spec : index.tables) {
    const std::string text = EncodeSpec(spec);
    AppendNumber(uint64_t{text.size()}, &bytes);
    AppendPadded(text, &bytes);
  }
  for (const auto& [partition, place] : index.partitions) {
    AppendNumber(uint64_t{partition}, &bytes);
    AppendNumber(place.offset, &bytes);
    AppendNumber(place.size, &bytes);
    AppendNumber(place.rows, &bytes);
  }
  return bytes;
}

std::string ReadSpecs(uint32_t count, ByteCursor* bytes, std::vector<TableSpec>* specs) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto size = bytes->Number<uint64_t>();
    const auto spec = ParseSpec(bytes->Part(size));
    bytes->Padding(size);
    if (!spec.has_value()) return "the spec of a table is malformed";
    if (!specs->empty() && spec->name <= specs->back().name) return "tables are not in order";
    specs->push_back(*spec);
  }
  return "";
}

std::string ReadPlaces(uint32_t count, uint64_t end, ByteCursor* bytes,
                       std::map<uint32_t, PartitionPlace>* places) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto partition = bytes->Number<uint64_t>();
    const PartitionPlace place{.offset = bytes->Number<uint64_t>(),
                               .size = bytes->Number<uint64_t>(),
                               .rows = bytes->Number<uint64_t>()};
    if (partition >= kPartitions || (!places->empty() && partition <= places->rbegin()->first)) {
      return "partitions are not in order";
    }
    if (place.offset > end || place.size > end - place.offset) {
      return "partition " + std::to_string(partition) + " lies outside the file";
    }
    places->emplace(static_cast<uint32_t>(partition), place);
  }
  return "";
}

}  // namespace

std::string SnapshotWriter::Add(const Holding& holding, uint32_t partition) {
  CHECK(!index_.partitions.contains(partition), "a partition is once in a file");
  std::string image = holding.SavePartition(partition);
  index_.partitions[partition] = {
      .offset = written_, .size = image.size(), .rows = holding.RowsOf(partition)};
  written_ += image.size();
  return image;
}

std::string SnapshotWriter::Finish(const Holding& holding, uint64_t job) const {
  SnapshotIndex index = index_;
  for (uint32_t i = 0; i < holding.tables(); ++i) index.tables.push_back(holding.Spec(i));
  std::sort(index.tables.begin(), index.tables.end(),
            [](const TableSpec& one, const TableSpec& other) { return one.name < other.name; });
  std::string bytes = WriteIndex(index);
  std::string rest;  // of the trailer, from where it is hashed
  AppendNumber(written_ + bytes.size() + kSnapshotTrailerBytes, &rest);
  AppendNumber(written_, &rest);
  AppendNumber(uint64_t{bytes.size()}, &rest);
  AppendNumber(HashOfBytes(bytes), &rest);
  AppendNumber(job, &rest);
  rest.resize(kSnapshotTrailerBytes - kTrailerHashedFrom, '\0');
  bytes += kTrailerMagic;
  AppendNumber(HashOfBytes(rest), &bytes);
  return bytes + rest;
}

Result<IndexPlace> ReadTrailer(std::string_view bytes, uint64_t file_bytes) {
  ByteCursor cursor(bytes);
  if (bytes.size() != kSnapshotTrailerBytes || cursor.Part(8) != kTrailerMagic) {
    return DamagedFile("it does not end as one");
  }
  const auto hash = cursor.Number<uint64_t>();
  if (HashOfBytes(bytes.substr(kTrailerHashedFrom)) != hash) {
    return DamagedFile("the hash of its trailer differs");
  }
  const auto size = cursor.Number<uint64_t>();
  const IndexPlace place{.offset = cursor.Number<uint64_t>(),
                         .size = cursor.Number<uint64_t>(),
                         .hash = cursor.Number<uint64_t>(),
                         .job = cursor.Number<uint64_t>()};
  if (size != file_bytes) {
    return DamagedFile("it has " + std::to_string(file_bytes) + " bytes, and should have " +
                       std::to_string(size));
  }
  if (size < kSnapshotTrailerBytes || place.offset > size - kSnapshotTrailerBytes ||
      place.size != size - kSnapshotTrailerBytes - place.offset) {
    return DamagedFile("its index lies outside the file");
  }
  return place;
}

Result<SnapshotIndex> ReadIndex(std::string_view bytes, const IndexPlace& place) {
  if (bytes.size() != place.size || HashOfBytes(bytes) != place.hash) {
    return DamagedFile("the hash of its index differs");
  }
  ByteCursor cursor(bytes);
  const auto tables = cursor.Number<uint32_t>();
  const auto partitions = cursor.Number<uint32_t>();
  SnapshotIndex index;
  std::string broken = ReadSpecs(tables, &cursor, &index.tables);
  if (broken.empty()) broken = ReadPlaces(partitions, place.offset, &cursor, &index.partitions);
  if (broken.empty() && (!cursor.is_whole() || cursor.left() != 0)) {
    broken = "the parts of its index have other sizes";
  }
  if (!broken.empty()) return DamagedFile(broken);
  return index;
}

}  // namespace paceline::ps
