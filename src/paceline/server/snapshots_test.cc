#include "paceline/server/snapshots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/test_dir.h"
#include "paceline/model/lease_frame.h"
#include "paceline/ps/frame/table_frame.h"

namespace paceline::server {
namespace {

const ps::TableSpec kSpec{
    .name = "ads", .dim = 1, .optimizer = {.name = "sgd", .rate = 1}, .scale = 0};

// Counts in row `key` that the batch was applied.
ps::PushAnswer CountBatch(ps::Holding* holding, uint64_t key, OrdinalRange batch) {
  const std::array<uint64_t, 1> keys = {key};
  const std::array<float, 1> one = {-1};
  const std::array<ps::TableGradient, 1> gradients = {
      ps::TableGradient{.table = 0, .keys = keys, .values = one}};
  std::string why;
  return holding->Push({.set = 3, .batch = {batch}}, gradients, &why);
}

float ValueOf(ps::Holding* holding, uint64_t key) {
  const std::array<uint64_t, 1> keys = {key};
  std::array<float, 1> row = {};
  holding->Pull(0, keys, /*is_training=*/false, row);
  return row[0];
}

struct Server {
  Server(const std::string& directory, uint32_t server, uint32_t servers, uint64_t job = 1)
      : own(ShareOf(TableRouting(servers), server)), snapshots({directory, job, server, servers}) {
    auto loading = snapshots.Load(own, &holding);
    EXPECT_TRUE(loading.ok()) << loading.status();
    loaded = *std::move(loading);
    EXPECT_TRUE(holding.Open(kSpec).ok());
  }
  std::string Save() {
    const std::string path = snapshots.NextPath();
    EXPECT_TRUE(snapshots.Write(own, holding, path).ok());
    return path;
  }
  ps::PartitionBits own;
  ps::Holding holding;
  Snapshots snapshots;
  Snapshots::Loaded loaded;
};

bool IsOf(uint64_t key, uint32_t server, uint32_t servers) {
  return ps::PartitionOf(ps::TableKeyOf("ads"), key) % servers == server;
}

TEST(SnapshotsTest, AServerBeginsWithItsNewestSnapshot) {
  const TestDir dir;
  {
    Server first(dir.path(), 0, 1);
    EXPECT_TRUE(first.loaded.from.empty());
    CountBatch(&first.holding, 7, {0, 4});
    first.Save();
    CountBatch(&first.holding, 7, {4, 8});
    first.Save();
    CountBatch(&first.holding, 7, {8, 12});  // is lost
  }
  Server again(dir.path(), 0, 1);
  EXPECT_EQ(again.loaded.rows, 1u);
  EXPECT_EQ(ValueOf(&again.holding, 7), 2);
  EXPECT_EQ(HaveText(again.loaded.applied, 0), "3 0-7\n");
  EXPECT_EQ(CountBatch(&again.holding, 7, {4, 8}), ps::PushAnswer::kSkipped);
  EXPECT_EQ(CountBatch(&again.holding, 7, {8, 12}), ps::PushAnswer::kApplied);
}

TEST(SnapshotsTest, ADamagedSnapshotIsNamedAndTheOneBeforeIsUsed) {
  const TestDir dir;
  std::string newest;
  {
    Server first(dir.path(), 0, 1);
    CountBatch(&first.holding, 7, {0, 4});
    first.Save();
    CountBatch(&first.holding, 7, {4, 8});
    newest = first.Save();
  }
  for (const bool is_cut : {false, true}) {
    if (is_cut) {
      std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
    } else {
      std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(200);
      file.put('!');
    }
    Server again(dir.path(), 0, 1);
    ASSERT_EQ(again.loaded.notes.size(), 1u);
    EXPECT_NE(again.loaded.notes[0].find(newest), std::string::npos);
    EXPECT_EQ(ValueOf(&again.holding, 7), 1);
    if (is_cut) {
      EXPECT_EQ(HaveText(again.loaded.applied, 0), "3 0-3\n");
    }
  }
}

TEST(SnapshotsTest, MoreOrFewerServersFindTheirPartitions) {
  const TestDir dir;
  for (uint32_t server = 0; server < 2; ++server) {
    Server one(dir.path(), server, 2);
    for (uint64_t key = 0; key < 50; ++key) {
      if (IsOf(key, server, 2)) CountBatch(&one.holding, key, {key, key + 1});
    }
    // Each batch goes to each server.
    CountBatch(&one.holding, server == 0 ? 1'000 : 1'001, {50, 60});
    one.Save();
  }
  uint64_t found = 0;
  for (uint32_t server = 0; server < 3; ++server) {
    Server one(dir.path(), server, 3);
    for (uint64_t key = 0; key < 50; ++key) {
      const float value = ValueOf(&one.holding, key);
      EXPECT_EQ(value, IsOf(key, server, 3) ? 1 : 0) << key;
      found += value == 1 ? 1 : 0;
    }
    // What both had applied, and no more.
    EXPECT_EQ(HaveText(one.loaded.applied, 0), "3 50-59\n");
    EXPECT_GT(one.snapshots.NextPath(), dir.path());
  }
  EXPECT_EQ(found, 50u);
}

TEST(SnapshotsTest, ALaterRunWithFewFilesDoesNotHideTheRest) {
  const TestDir dir;
  for (uint32_t server = 0; server < 2; ++server) {
    Server one(dir.path(), server, 2);
    for (uint64_t key = 0; key < 50; ++key) CountBatch(&one.holding, key, {key, key + 1});
    one.Save();
  }
  {
    Server alone(dir.path(), 0, 3);  // the other two of three never came to write
    CountBatch(&alone.holding, 2'000, {50, 51});
    alone.Save();
  }
  Server second(dir.path(), 1, 3);
  for (uint64_t key = 0; key < 50; ++key) {
    EXPECT_EQ(ValueOf(&second.holding, key), IsOf(key, 1, 3) ? 1 : 0) << key;
  }
}

TEST(SnapshotsTest, PartitionsThatAnEarlierJobWroteAndThatAreGoneAreTold) {
  const TestDir dir;
  std::string gone;
  for (uint32_t server = 0; server < 2; ++server) {
    Server one(dir.path(), server, 2);
    for (uint64_t key = 0; key < 50; ++key) CountBatch(&one.holding, key, {key, key + 1});
    gone = one.Save();
  }
  EXPECT_TRUE(Server(dir.path(), 1, 2, 2).loaded.notes.empty()) << "both are there";
  std::filesystem::remove(gone);
  EXPECT_TRUE(Server(dir.path(), 1, 2).loaded.notes.empty()) << "the job itself reads them again";
  EXPECT_TRUE(Server(dir.path(), 0, 2, 2).loaded.notes.empty()) << "its partitions are there";
  const Server next(dir.path(), 1, 2, 2);
  ASSERT_EQ(next.loaded.notes.size(), 1u);
  EXPECT_NE(next.loaded.notes[0].find("has 2048 of the 2048 partitions"), std::string::npos)
      << next.loaded.notes[0];
}

// A server that was lost before its tables had a row: all batches come again.
TEST(SnapshotsTest, AfterAnEmptySnapshotEachBatchCountsOnce) {
  const TestDir dir;
  for (const uint64_t before : {0, 1'500}) {
    {
      Server first(dir.path(), 1, 2);
      for (uint64_t key = 0; key < before; ++key) {
        if (IsOf(key, 1, 2)) CountBatch(&first.holding, key, {key, key + 1});
      }
      first.Save();
    }
    Server again(dir.path(), 1, 2);
    for (uint64_t key = 0; key < 3'000; ++key) {
      if (IsOf(key, 1, 2)) CountBatch(&again.holding, key, {key, key + 1});
    }
    for (uint64_t key = 0; key < 3'000; ++key) {
      if (IsOf(key, 1, 2)) {
        ASSERT_EQ(ValueOf(&again.holding, key), 1) << key << " " << before;
      }
    }
  }
}

TEST(SnapshotsTest, TwoFilesStay) {
  const TestDir dir;
  Server one(dir.path(), 0, 1);
  std::vector<std::string> paths;
  for (int i = 0; i < 4; ++i) paths.push_back(one.Save());
  one.snapshots.Prune();
  for (size_t i = 0; i < paths.size(); ++i) {
    EXPECT_EQ(std::filesystem::exists(paths[i]), i >= 2) << paths[i];
  }
}

// The other server has the partition by the journal, and has not written it yet.
TEST(SnapshotsTest, AFileWithTheNewestRowsOfAPartitionStays) {
  const TestDir dir;
  Server source(dir.path(), 0, 2);
  Server target(dir.path(), 1, 2);
  CountBatch(&source.holding, 7, {0, 4});
  const uint32_t moved = ps::PartitionOf(ps::TableKeyOf("ads"), 7);
  ASSERT_TRUE(source.own.test(moved) || target.own.test(moved));
  source.own.set(moved);
  const std::string newest = source.Save();
  source.own.reset(moved);
  for (int i = 0; i < 3; ++i) {
    source.Save();
    source.snapshots.Prune();
  }
  EXPECT_EQ(::access(newest.c_str(), F_OK), 0);
  target.own.set(moved);
  target.snapshots.GoAbove(source.snapshots.next());
  EXPECT_GT(target.snapshots.next(), source.snapshots.next());
  for (int i = 0; i < 2; ++i) target.Save();
  source.Save();
  source.snapshots.Prune();
  EXPECT_NE(::access(newest.c_str(), F_OK), 0) << "two newer files have it";
}

TEST(SnapshotsTest, AllThatWasAppliedIsToldAlsoIfItTakesSeveralFrames) {
  ps::AppliedSet applied;
  for (uint64_t i = 0; i < 20'000; ++i) applied[1].Add({i * 10, i * 10 + 1});
  const std::string text = HaveText(applied, 0);
  EXPECT_GT(text.size(), kLeaseFrameTextMax);
  const auto lines = std::count(text.begin(), text.end(), '\n');
  EXPECT_GT(lines, 1) << "a frame has whole lines";
  EXPECT_EQ(std::count(text.begin(), text.end(), ',') + lines, 20'000);
}

}  // namespace
}  // namespace paceline::server
