#include "paceline/core/node_map.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "paceline/base/prng.h"

namespace paceline::core {
namespace {

std::vector<uint32_t> Keys(const NodeMap<std::string>& map) {
  std::vector<uint32_t> keys;
  for (const auto& [id, value] : map) keys.push_back(id.value());
  return keys;
}

TEST(NodeMap, FindsWhatWasPutIn) {
  NodeMap<std::string> map;
  EXPECT_EQ(map.find(NodeId(1)), map.end());
  map[NodeId(1)] = "one";
  map[NodeId(2)] = "two";
  EXPECT_EQ(map.find(NodeId(2))->second, "two");
  EXPECT_EQ(map.find(NodeId(0)), map.end());
  EXPECT_EQ(map.find(NodeId(3)), map.end());
}

TEST(NodeMap, KeepsTheOrderOfIdsWithGapsAndZero) {
  NodeMap<std::string> map;
  for (const uint32_t id : {4'000'000'000u, 7u, 0u, 2u, 1u, 7u}) map[NodeId(id)] = "x";
  EXPECT_EQ(Keys(map), (std::vector<uint32_t>{0, 1, 2, 7, 4'000'000'000u}));
}

TEST(NodeMap, ReferencesOutliveInsertionsInFront) {
  NodeMap<std::string> map;
  std::string& five = map[NodeId(5)];
  for (uint32_t id = 0; id < 200; ++id) map[NodeId(id)] += "seen";
  EXPECT_EQ(five, "seen");
  five = "changed";
  EXPECT_EQ(map.find(NodeId(5))->second, "changed");
}

TEST(NodeMap, CopiesAreDeepAndCompareByValue) {
  NodeMap<std::string> map;
  map[NodeId(1)] = "one";
  NodeMap<std::string> copy = map;
  EXPECT_EQ(copy, map);
  copy[NodeId(1)] = "other";
  EXPECT_FALSE(copy == map);
  EXPECT_EQ(map[NodeId(1)], "one");
  map[NodeId(2)];
  copy = map;
  EXPECT_EQ(copy, map);
}

TEST(NodeMap, BehavesAsAnOrderedMap) {
  Prng prng(1);
  NodeMap<int> map;
  std::map<NodeId, int> twin;
  for (int i = 0; i < 2'000; ++i) {
    const NodeId id(static_cast<uint32_t>(prng.Below(300)));
    if (prng.Chance(1, 2)) map[id] = twin[id] = i;
    const auto found = map.find(id);
    const auto expected = twin.find(id);
    ASSERT_EQ(found == map.end(), expected == twin.end());
    if (expected != twin.end()) {
      ASSERT_EQ(found->second, expected->second);
    }
  }
  ASSERT_EQ(map.size(), twin.size());
  auto it = map.begin();
  for (const auto& [id, value] : twin) {
    EXPECT_EQ(it->first, id);
    EXPECT_EQ(it->second, value);
    ++it;
  }
}

}  // namespace
}  // namespace paceline::core
