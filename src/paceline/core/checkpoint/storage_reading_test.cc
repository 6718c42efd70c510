// Several hosts restore from storage: the ledger decides who reads what.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/checkpoint/restore.h"
#include "paceline/core/testing/hosts_fixture.h"

namespace paceline::core {
namespace {

TEST_F(Hosts, StorageIsReadOnceForARankOfReplicas) {
  Make(3);
  for (Host& host : hosts_) {
    host.stored = StoredCheckpoint{"step-2-g1", "former", {1, 2}, 3, {0, 0, 0}};
  }
  Form(1, {0, 1, 2});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kStorage);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(Order(i).fetch.size(), 1u) << i;
    EXPECT_EQ(Order(i).fetch[0].name, "step-2-g1");
    EXPECT_EQ(Order(i).restore->sources.size(), 1u);
  }
  EXPECT_EQ(Order(0).fetch[0].sources.front().node, "") << "it reads";
  EXPECT_EQ(Order(1).fetch[0].sources.front().node, "n0");
  EXPECT_EQ(Order(2).fetch[0].sources.front().node, "n1");
  EXPECT_EQ(Order(2).fetch[0].sources.back().node, "") << "if all else fails, each reads itself";
}

TEST_F(Hosts, AWorldOfAnotherSizeSharesTheReading) {
  Make(3);
  for (Host& host : hosts_) host.stored = StoredCheckpoint{"step-2-g1", "former", {1, 2}, 2, {}};
  Form(1, {0, 1, 2});
  EXPECT_EQ(book_.restore.from, RestoreOrder::From::kStorage);
  ASSERT_EQ(Order(0).readers.size(), 3u);
  EXPECT_EQ(Order(0).readers[2].node, "n2");
  EXPECT_FALSE(Order(0).readers[2].address.empty());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(Order(i).readers, Order(0).readers);
  // A restarted agent has another address.
  const std::string before = Order(0).readers[1].address;
  ++port_;
  Tell();
  EXPECT_NE(Order(0).readers[1].address, before);
  // After all ranks have saved, no host reads any more.
  Save(5, {1, 2, 3});
  Tell();
  EXPECT_TRUE(Order(0).readers.empty());
}

TEST_F(Hosts, ManyHostsShareInGroups) {
  Make(130);
  std::vector<size_t> all;
  for (size_t i = 0; i < 130; ++i) {
    hosts_[i].stored = StoredCheckpoint{"step-2-g1", "former", {1, 2}, 2, {}};
    all.push_back(i);
  }
  Form(1, all);
  std::set<std::string> groups;
  for (size_t i = 0; i < 130; ++i) {
    const std::vector<StorageReader> readers = Order(i).readers;
    EXPECT_GE(readers.size(), 43u);
    EXPECT_LE(readers.size(), kReadersMax);
    EXPECT_EQ(1, std::count_if(readers.begin(), readers.end(),
                               [&](const StorageReader& one) { return one.node == Name(i); }));
    groups.insert(readers.front().node);
  }
  EXPECT_EQ(groups.size(), 3u);
}

TEST_F(Hosts, RanksOfOneHostReadStorageThemselves) {
  Make(2);
  hosts_[1].domain = hosts_[0].domain;
  for (Host& host : hosts_) host.stored = StoredCheckpoint{"step-2-g1", "f", {1, 2}, 2, {0, 0}};
  Form(1, {0, 1});
  EXPECT_TRUE(Order(0).fetch.empty() && Order(1).fetch.empty());
  EXPECT_TRUE(Order(1).restore->sources.empty());
  EXPECT_TRUE(Order(0).readers.empty());
}

}  // namespace
}  // namespace paceline::core
