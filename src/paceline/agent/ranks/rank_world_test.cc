#include "paceline/agent/ranks/rank_world.h"

#include <gtest/gtest.h>

#include "paceline/base/json.h"

namespace paceline::agent {
namespace {

std::optional<RankWorld> Read(const std::string& text) { return RankWorldIn(ParseJson(text)); }

TEST(RankWorld, AProcessAloneSaysNothingOfItsWorld) {
  const auto world = Read(R"({"op": "open", "rank": 0})");
  ASSERT_TRUE(world.has_value());
  EXPECT_EQ(world->attempt, "");
  EXPECT_EQ(world->seats, (std::vector<Seat>{{NodeId(1), 0, 1}}));
}

TEST(RankWorld, HostsAreNodesFromOneOn) {
  const auto world = Read(
      R"({"world": {"attempt": "a", "host": 1, "seats": [[0, 0, 2], [1, 2, 3], [0, 5, 1]],
          "join": "j", "address": "10.0.0.2"}})");
  ASSERT_TRUE(world.has_value());
  EXPECT_EQ(world->hosts, 2U);
  EXPECT_EQ(world->host, 1U);
  EXPECT_EQ(world->seats,
            (std::vector<Seat>{{NodeId(1), 0, 2}, {NodeId(2), 2, 3}, {NodeId(1), 5, 1}}));
  EXPECT_EQ(world->join, "j");
  EXPECT_EQ(world->address, "10.0.0.2");
}

TEST(RankWorld, WhatIsInTheDirectoryIsSaidForOneProcessAndForMany) {
  const SavedStep saved{.generation = 7, .step = 40, .branch = 2};
  EXPECT_EQ(Read(R"({"in_directory": "step-40-g7-b2"})")->in_directory, saved);
  const auto world =
      Read(R"({"in_directory": "step-40-g7-b2", "world": {"attempt": "a", "seats": [[0, 0, 2]]}})");
  EXPECT_EQ(world->in_directory, saved);
  EXPECT_EQ(Read(R"({"in_directory": ""})")->in_directory, SavedStep{}) << "there is nothing";
  EXPECT_EQ(Read(R"({"in_directory": 7})")->in_directory, SavedStep{});
  EXPECT_EQ(Read("{}")->in_directory, std::nullopt) << "nobody looked";
}

TEST(RankWorld, WhatCannotBeIsRefused) {
  const char* const kWrong[] = {
      R"({"world": 3})",
      R"({"world": {}})",
      R"({"world": {"attempt": "a", "seats": []}})",
      R"({"world": {"attempt": "", "seats": [[0, 0, 2]]}})",
      R"({"world": {"attempt": "a", "seats": [[0, 1, 2]]}})",             // rank 0 is missing
      R"({"world": {"attempt": "a", "seats": [[0, 0, 0]]}})",             // a seat without ranks
      R"({"world": {"attempt": "a", "seats": [[0, 0, 2], [1, 1, 2]]}})",  // rank 1 twice
      R"({"world": {"attempt": "a", "seats": [[0, 0, -2]]}})",
      R"({"world": {"attempt": "a", "seats": [[0, 0, 1099511627776]]}})",
      R"({"world": {"attempt": "a", "seats": [["0", 0, 2]]}})",
      R"({"world": {"attempt": "a", "seats": [[0, 0]]}})",
      R"({"world": {"attempt": "a", "host": 1, "seats": [[0, 0, 2]]}})",  // there is no host 1
  };
  for (const char* const wrong : kWrong) EXPECT_FALSE(Read(wrong).has_value()) << wrong;
}

TEST(RankWorld, ALauncherThatIsNotSaidIsNone) {
  EXPECT_EQ(LauncherIn(ParseJson(R"({"launcher": 3})")), ProcessId{});
  EXPECT_EQ(LauncherIn(ParseJson(R"({"launcher": {"pid": 12, "start": 34}})")),
            (ProcessId{.pid = 12, .start_time_ticks = 34}));
}

}  // namespace
}  // namespace paceline::agent
