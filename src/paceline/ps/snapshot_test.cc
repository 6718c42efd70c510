#include "paceline/ps/snapshot.h"

#include <gtest/gtest.h>

#include "paceline/base/prng.h"
#include "paceline/ps/partition_image.h"

namespace paceline::ps {
namespace {

// Two tables with a few thousand rows that were trained, in any order of admission.
void Fill(Holding* holding, bool backwards) {
  const TableSpec ads{.name = "ads", .dim = 5, .optimizer = {.name = "adam"}, .seed = 3};
  const TableSpec users{.name = "users", .dim = 2, .optimizer = {.name = "adagrad"}};
  for (const TableSpec& spec : backwards ? std::vector{users, ads} : std::vector{ads, users}) {
    ASSERT_TRUE(holding->Open(spec).ok());
  }
  for (uint32_t table = 0; table < 2; ++table) {
    const uint32_t dim = holding->Spec(table).dim;
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 3'000; ++i) keys.push_back((backwards ? 2'999 - i : i) - 1'000);
    std::vector<float> values(keys.size() * dim, 0.5f);
    for (uint64_t batch = 0; batch < 3; ++batch) {
      const TableGradient gradient{.table = table, .keys = keys, .values = values};
      const PushTag tag{.set = 1 + holding->Spec(table).dim, .batch = {{batch * 9, batch * 9 + 8}}};
      std::string why;
      ASSERT_EQ(holding->Push(tag, std::span(&gradient, 1), &why), PushAnswer::kApplied) << why;
    }
  }
}

std::string SaveAll(const Holding& holding) {
  SnapshotWriter writer;
  std::string file;
  for (uint32_t i = 0; i < kPartitions; ++i) file += writer.Add(holding, i);
  EXPECT_EQ(writer.written(), file.size());
  return file + writer.Finish(holding, 7);
}

Result<SnapshotIndex> IndexOf(std::string_view file) {
  const std::string_view trailer =
      file.substr(file.size() - std::min(file.size(), kSnapshotTrailerBytes));
  ASSIGN_OR_RETURN(const IndexPlace place, ReadTrailer(trailer, file.size()));
  return ReadIndex(file.substr(place.offset, place.size), place);
}

TEST(SnapshotTest, AnyNumberOfServersLoadIt) {
  Holding holding;
  Fill(&holding, false);
  const std::string file = SaveAll(holding);
  const auto index = IndexOf(file);
  ASSERT_TRUE(index.ok()) << index.failure().message;
  ASSERT_EQ(index->tables.size(), 2u);
  EXPECT_EQ(index->tables[0].name, "ads");
  std::vector<std::unique_ptr<Holding>> servers;
  for (int i = 0; i < 3; ++i) servers.push_back(std::make_unique<Holding>(i));
  uint64_t rows = 0;
  for (const auto& [partition, place] : index->partitions) {
    Holding* server = servers[partition % 3].get();
    const auto loaded =
        server->LoadPartition(std::string_view(file).substr(place.offset, place.size));
    ASSERT_TRUE(loaded.ok()) << loaded.failure().message;
    rows += place.rows;
    // The same bytes again: rows, optimizer state and what was applied.
    EXPECT_EQ(server->SavePartition(partition), holding.SavePartition(partition));
    EXPECT_EQ(server->RowsOf(partition), place.rows);
  }
  EXPECT_EQ(rows, 6'000u);
}

TEST(SnapshotTest, EqualContentGivesEqualBytes) {
  Holding one;
  Holding other(12'345);
  Fill(&one, false);
  Fill(&other, true);
  for (uint32_t i = 0; i < kPartitions; ++i) {
    ASSERT_EQ(one.SavePartition(i), other.SavePartition(i)) << i;
  }
}

TEST(SnapshotTest, EveryFlippedByteIsFound) {
  Holding holding;
  Fill(&holding, false);
  const std::string image = holding.SavePartition(7);
  Holding other;
  for (size_t i = 0; i < image.size(); ++i) {
    std::string bad = image;
    bad[i] ^= 0x10;
    ASSERT_EQ(other.LoadPartition(bad).failure().kind, FailureKind::kDamaged) << i;
    ASSERT_FALSE(other.LoadPartition(image.substr(0, i)).ok()) << i;
  }
  EXPECT_EQ(other.tables(), 0u);
  EXPECT_FALSE(other.LoadPartition(image + '\0').ok());
  EXPECT_TRUE(other.LoadPartition(image).ok());
  SnapshotWriter writer;
  std::string file = writer.Add(holding, 7);
  file += writer.Finish(holding, 7);
  ASSERT_TRUE(IndexOf(file).ok());
  for (size_t i = image.size(); i < file.size(); ++i) {
    std::string bad = file;
    bad[i] ^= 0x10;
    ASSERT_FALSE(IndexOf(bad).ok()) << i;
  }
  EXPECT_FALSE(IndexOf(file.substr(0, file.size() - 1)).ok());
  EXPECT_FALSE(IndexOf("").ok());
}

// Bytes with a right hash that break one rule each.
TEST(SnapshotTest, AnImageThatBreaksARuleIsRefused) {
  const TableSpec spec{.name = "ads", .dim = 1, .optimizer = {.name = "sgd"}};
  std::vector<uint64_t> keys;  // of one partition
  for (uint64_t i = 0; keys.size() < 2; ++i) {
    if (PartitionOf(TableKeyOf("ads"), i) == 5) keys.push_back(i);
  }
  const auto image_of = [&](uint32_t partition, const std::vector<uint64_t>& its_keys,
                            uint32_t row_floats, size_t floats) {
    const std::vector<float> values(floats, 1.0f);
    const TableRows rows{
        .spec = spec,
        .row_floats = row_floats,
        .rows = its_keys.size(),
        .keys = {reinterpret_cast<const char*>(its_keys.data()), its_keys.size() * 8},
        .floats = {reinterpret_cast<const char*>(values.data()), values.size() * 4}};
    return WriteImage({.partition = partition, .applied = {}, .tables = {rows}});
  };
  EXPECT_TRUE(ReadImage(image_of(5, keys, 1, 2)).ok());
  EXPECT_FALSE(ReadImage(image_of(6, keys, 1, 2)).ok()) << "another partition";
  EXPECT_FALSE(ReadImage(image_of(kPartitions, keys, 1, 2)).ok()) << "no partition";
  EXPECT_FALSE(ReadImage(image_of(5, {keys[1], keys[0]}, 1, 2)).ok()) << "not in order";
  EXPECT_FALSE(ReadImage(image_of(5, {keys[0], keys[0]}, 1, 2)).ok()) << "twice";
  EXPECT_FALSE(ReadImage(image_of(5, keys, 2, 4)).ok()) << "another size than the spec's";
  EXPECT_FALSE(ReadImage(image_of(5, keys, 1, 8)).ok()) << "more bytes than rows";
  EXPECT_FALSE(ReadImage(image_of(5, {}, 1, 0)).ok()) << "no rows";
}

TEST(SnapshotTest, AnOpenTableOfAnotherShapeChangesNothing) {
  Holding holding;
  Fill(&holding, false);
  const std::string image = holding.SavePartition(7);
  Holding other;
  const TableSpec spec{.name = "users", .dim = 3, .optimizer = {.name = "adagrad"}};
  ASSERT_TRUE(other.Open(spec).ok());
  const auto loaded = other.LoadPartition(image);
  ASSERT_EQ(loaded.failure().kind, FailureKind::kExists);
  EXPECT_NE(loaded.failure().message.find("users"), std::string::npos);
  EXPECT_EQ(other.tables(), 1u);
  EXPECT_EQ(other.RowsOf(7), 0u);
}

TEST(SnapshotTest, ALoadReplacesThePartition) {
  Holding holding;
  Fill(&holding, false);
  const std::string before = holding.SavePartition(7);
  const uint64_t bytes = holding.Counts(0).bytes;
  std::vector<uint64_t> more;
  for (uint64_t i = 0; more.size() < 40; ++i) {
    if (PartitionOf(TableKeyOf("ads"), i + 100'000) == 7) more.push_back(i + 100'000);
  }
  std::vector<float> values(more.size() * 5);
  holding.Pull(0, more, true, values);
  EXPECT_NE(holding.SavePartition(7), before);
  ASSERT_TRUE(holding.LoadPartition(before).ok());
  EXPECT_EQ(holding.SavePartition(7), before);
  EXPECT_LE(holding.Counts(0).bytes, bytes);
  EXPECT_EQ(holding.Counts(0).rows, 3'000u);
}

}  // namespace
}  // namespace paceline::ps
