#include "paceline/server/table_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/test_dir.h"
#include "paceline/ps/holding.h"
#include "paceline/server/snapshots.h"

namespace paceline::server {
namespace {

using RowsByKey = std::map<int64_t, std::vector<float>>;

// Two servers with rows of one table, each in a snapshot of its own.
RowsByKey WriteSnapshots(const std::string& directory) {
  RowsByKey expected;
  for (uint32_t server = 0; server < 2; ++server) {
    ps::Holding holding(ps::Holding::kSalt);
    Snapshots snapshots({.directory = directory, .server = server, .servers = 2});
    EXPECT_TRUE(snapshots.Load(ShareOf(TableRouting(2), server), &holding).ok());
    const auto table = holding.Open({.name = "ads", .dim = 2, .optimizer = {.name = "sgd"}});
    EXPECT_TRUE(table.ok());
    for (int64_t key = -50; key < 50; ++key) {
      const auto number = static_cast<uint64_t>(key);
      if (ps::PartitionOf(ps::TableKeyOf("ads"), number) % 2 != server) continue;
      const std::vector<float> row = {static_cast<float>(key), 0.5f};
      holding.Init(*table, std::span(&number, 1), row);
      expected[key] = row;
    }
    EXPECT_TRUE(
        snapshots.Write(ShareOf(TableRouting(2), server), holding, snapshots.NextPath()).ok());
  }
  return expected;
}

TEST(TableFileTest, AFileHasTheRowsOfAllServers) {
  const TestDir dir;
  const RowsByKey expected = WriteSnapshots(dir.path());
  const std::string path = dir.path() + "/ads.safetensors";
  const auto written = WriteTableFile(dir.path(), "ads", path);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->rows, 100u);
  EXPECT_EQ(written->dim, 2u);
  const std::string text = ReadText(path, 1 << 20);
  ASSERT_GT(text.size(), 8u);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), sizeof(header_bytes));
  EXPECT_EQ(header_bytes % 8, 0u);
  const nlohmann::json header = ParseJson(text.substr(8, header_bytes));
  EXPECT_EQ(header["keys"]["shape"], nlohmann::json({100}));
  EXPECT_EQ(header["rows"]["shape"], nlohmann::json({100, 2}));
  const char* const keys = text.data() + 8 + header_bytes;
  ASSERT_EQ(text.size(), 8 + header_bytes + 100 * 16);
  RowsByKey found;
  for (size_t i = 0; i < 100; ++i) {
    int64_t key = 0;
    std::vector<float> row(2);
    std::memcpy(&key, keys + i * 8, 8);
    std::memcpy(row.data(), keys + 800 + i * 8, 8);
    found[key] = row;
  }
  EXPECT_EQ(found, expected);
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST(TableFileTest, AnUnknownTableIsToldBesideTheKnownOnes) {
  const TestDir dir;
  WriteSnapshots(dir.path());
  const auto written = WriteTableFile(dir.path(), "users", dir.path() + "/file");
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.status().message().find("have ads, and not users"), std::string::npos)
      << written.status();
}

TEST(TableFileTest, AFolderThatIsNotThereIsNamed) {
  const TestDir dir;
  WriteSnapshots(dir.path());
  const auto written = WriteTableFile(dir.path(), "ads", dir.path() + "/none/file");
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.status().message().find("/none/file"), std::string::npos);
}

}  // namespace
}  // namespace paceline::server
