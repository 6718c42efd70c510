#include "paceline/ps/partition_image.h"

#include <cstring>
#include <optional>
#include <utility>

#include "paceline/ps/byte_cursor.h"
#include "paceline/ps/optimizer/optimizer.h"
#include "paceline/ps/row_hash.h"

namespace paceline::ps {
namespace {

constexpr std::string_view kImageMagic = "PLPARTN1";
constexpr size_t kHashedFrom = 16;  // magic and hash come before

Failure DamagedImage(const std::string& rule) {
  return {FailureKind::kDamaged, "an image of a partition is damaged: " + rule};
}

// None if the ranges are not in order with gaps between them.
std::optional<IntervalSet> ReadRanges(uint64_t count, ByteCursor* bytes) {
  IntervalSet set;
  uint64_t last_end = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto begin = bytes->Number<uint64_t>();
    const auto end = bytes->Number<uint64_t>();
    if (begin >= end || (i > 0 && begin <= last_end)) return std::nullopt;
    set.Add({begin, end});
    last_end = end;
  }
  return set;
}

std::string ReadApplied(uint32_t sets, ByteCursor* bytes, AppliedSet* applied) {
  for (uint32_t i = 0; i < sets; ++i) {
    const auto set = bytes->Number<uint64_t>();
    const auto count = bytes->Number<uint64_t>();
    if (count == 0 || count > bytes->left() / 16) return "a data set has too many ranges";
    if (!applied->empty() && set <= applied->rbegin()->first) return "data sets are not in order";
    auto ranges = ReadRanges(count, bytes);
    if (!ranges.has_value()) return "the ranges of a data set are not in order";
    applied->emplace(set, *std::move(ranges));
  }
  return "";
}

std::string CheckKeys(const TableRows& table, uint32_t partition) {
  const TableKey name = TableKeyOf(table.spec.name);
  ByteCursor keys(table.keys);
  uint64_t last = 0;
  for (uint64_t i = 0; i < table.rows; ++i) {
    const auto key = keys.Number<uint64_t>();
    if (i > 0 && key <= last) return "the keys of table " + table.spec.name + " are not in order";
    if (PartitionOf(name, key) != partition) {
      return "a key of table " + table.spec.name + " belongs to another partition";
    }
    last = key;
  }
  return "";
}

std::string ReadTable(uint32_t partition, ByteCursor* bytes, std::vector<TableRows>* tables) {
  const auto text_bytes = bytes->Number<uint32_t>();
  TableRows table;
  table.row_floats = bytes->Number<uint32_t>();
  table.rows = bytes->Number<uint64_t>();
  const std::string_view text = bytes->Part(text_bytes);
  bytes->Padding(text_bytes);
  const auto spec = ParseSpec(text);
  if (!spec.has_value() || EncodeSpec(*spec) != text) return "the spec of a table is malformed";
  table.spec = *spec;
  const Optimizer* optimizer = FindOptimizer(spec->optimizer.name);
  if (table.row_floats != spec->dim + optimizer->state_floats(spec->dim)) {
    return "the rows of table " + spec->name + " have another size than its spec says";
  }
  if (!tables->empty() && spec->name <= tables->back().spec.name) return "tables are not in order";
  const uint64_t row_bytes = uint64_t{table.row_floats} * sizeof(float);
  if (table.rows == 0 || table.rows > bytes->left() / (sizeof(uint64_t) + row_bytes)) {
    return "table " + spec->name + " has more rows than bytes are there";
  }
  table.keys = bytes->Part(table.rows * sizeof(uint64_t));
  table.floats = bytes->Part(table.rows * row_bytes);
  bytes->Padding(table.floats.size());
  const std::string broken = CheckKeys(table, partition);
  tables->push_back(std::move(table));
  return broken;
}

}  // namespace

uint64_t HashOfBytes(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string WriteImage(const PartitionImage& image) {
  std::string bytes(kImageMagic);
  size_t size = 0;
  for (const TableRows& table : image.tables) size += table.keys.size() + table.floats.size();
  bytes.reserve(size + (size_t{1} << 10) * (image.tables.size() + 1));
  AppendNumber(uint64_t{0}, &bytes);  // hash and size, see below
  AppendNumber(uint64_t{0}, &bytes);
  AppendNumber(image.partition, &bytes);
  AppendNumber(static_cast<uint32_t>(image.tables.size()), &bytes);
  AppendNumber(static_cast<uint32_t>(image.applied.size()), &bytes);
  AppendNumber(uint32_t{0}, &bytes);
  for (const auto& [set, ordinals] : image.applied) {
    const std::vector<OrdinalRange> ranges = ordinals.Ranges();
    AppendNumber(set, &bytes);
    AppendNumber(uint64_t{ranges.size()}, &bytes);
    for (const OrdinalRange& range : ranges) {
      AppendNumber(range.begin, &bytes);
      AppendNumber(range.end, &bytes);
    }
  }
  for (const TableRows& table : image.tables) {
    const std::string text = EncodeSpec(table.spec);
    AppendNumber(static_cast<uint32_t>(text.size()), &bytes);
    AppendNumber(table.row_floats, &bytes);
    AppendNumber(table.rows, &bytes);
    AppendPadded(text, &bytes);
    bytes.append(table.keys);
    AppendPadded(table.floats, &bytes);
  }
  const uint64_t whole = bytes.size();
  std::memcpy(bytes.data() + kHashedFrom, &whole, sizeof(whole));
  const uint64_t hash = HashOfBytes(std::string_view(bytes).substr(kHashedFrom));
  std::memcpy(bytes.data() + kImageMagic.size(), &hash, sizeof(hash));
  return bytes;
}

Result<PartitionImage> ReadImage(std::string_view bytes) {
  ByteCursor cursor(bytes);
  if (cursor.Part(kImageMagic.size()) != kImageMagic)
    return DamagedImage("it does not begin as one");
  const auto hash = cursor.Number<uint64_t>();
  const auto size = cursor.Number<uint64_t>();
  if (!cursor.is_whole() || size != bytes.size()) {
    return DamagedImage("it has " + std::to_string(bytes.size()) + " bytes, and should have " +
                        std::to_string(size));
  }
  if (HashOfBytes(bytes.substr(kHashedFrom)) != hash) return DamagedImage("its hash differs");
  PartitionImage image;
  image.partition = cursor.Number<uint32_t>();
  const auto tables = cursor.Number<uint32_t>();
  const auto sets = cursor.Number<uint32_t>();
  const auto zero = cursor.Number<uint32_t>();
  if (image.partition >= kPartitions || zero != 0) return DamagedImage("its head is malformed");
  std::string broken = ReadApplied(sets, &cursor, &image.applied);
  for (uint32_t i = 0; i < tables && broken.empty(); ++i) {
    broken = ReadTable(image.partition, &cursor, &image.tables);
  }
  if (!broken.empty()) return DamagedImage(broken);
  if (!cursor.is_whole() || cursor.left() != 0) return DamagedImage("its parts have other sizes");
  return image;
}

}  // namespace paceline::ps
