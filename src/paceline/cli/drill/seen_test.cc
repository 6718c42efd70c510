#include "paceline/cli/drill/seen.h"

#include <set>

#include "gtest/gtest.h"
#include "paceline/sim/fault/fault.h"

namespace paceline::cli {
namespace {

using wire::JobEvent;

constexpr int64_t kTenth = 100'000'000;

JobEvent DrillEvent(uint64_t seq, std::string kind, std::vector<uint64_t> causes,
                    std::map<std::string, std::string> details = {}) {
  return {.seq = seq,
          .time_ns = static_cast<int64_t>(seq) * kTenth,
          .kind = std::move(kind),
          .causes = std::move(causes),
          .details = std::move(details)};
}

// Rank 1 is struck after event 4.
constexpr Struck kRankOne{.time_ns = 4 * kTenth + 1, .rank = 1};

// The connection of rank 0 breaks, and that is told before the death of rank 1 that broke it.
std::vector<JobEvent> BrokenAndKilled() {
  std::vector<JobEvent> events = {
      DrillEvent(1, "job_created", {}),
      DrillEvent(2, "node_joined", {}),
      DrillEvent(3, "world_formed", {2}),
      DrillEvent(4, "world_running", {3}),
      DrillEvent(5, "rank_failed", {3},
                 {{"charged", "true"}, {"class", "connection_reset"}, {"role", "cascade"}}),
      DrillEvent(6, "recovery_decided", {5}, {{"rung", "restart process"}}),
      DrillEvent(7, "rank_failed", {5},
                 {{"charged", "true"},
                  {"explains", "true"},
                  {"class", "killed"},
                  {"role", "cause"},
                  {"how", "signaled"}}),
      DrillEvent(8, "world_formed", {6}),
      DrillEvent(9, "world_running", {8})};
  events[4].rank = 0;
  events[6].rank = 1;
  return events;
}

TEST(Seen, TheCauseCountsAndNotWhatWasToldFirst) {
  const Seen seen = SeenIn(BrokenAndKilled(), kRankOne);
  EXPECT_EQ(seen.found, "killed");
  EXPECT_EQ(seen.rung, "restart process");
  EXPECT_EQ(seen.rank, 1U);
  EXPECT_EQ(seen.found_after->milliseconds(), 99);
  EXPECT_EQ(seen.trained_after->milliseconds(), 499);
  EXPECT_EQ(Difference(*FindDrillKind("sigkill"), kRankOne, seen), "");
}

TEST(Seen, AWorldWithoutAStepDoesNotTrainAgain) {
  std::vector<JobEvent> events = BrokenAndKilled();
  events.back().details["has_steps"] = "false";
  EXPECT_FALSE(SeenIn(events, kRankOne).trained_after.has_value());
  EXPECT_EQ(Difference(*FindDrillKind("sigkill"), kRankOne, SeenIn(events, kRankOne)),
            "the ranks do not train again");
  events.push_back(DrillEvent(10, "progress_made", {8}));
  EXPECT_EQ(SeenIn(events, kRankOne).trained_after->milliseconds(), 599);
}

TEST(Seen, WhatWasBeforeTheStrikeDoesNotCount) {
  const Struck late{.time_ns = 9 * kTenth + 1, .rank = 1};
  const Seen seen = SeenIn(BrokenAndKilled(), late);
  EXPECT_FALSE(seen.found_after.has_value());
  EXPECT_EQ(Difference(*FindDrillKind("sigkill"), late, seen), "nothing was found within 20s");
}

TEST(Seen, EachDifferenceIsNamed) {
  const DrillKind& kind = *FindDrillKind("sigkill");
  const Seen right = SeenIn(BrokenAndKilled(), kRankOne);
  Seen seen = right;
  seen.found = "host_oom";
  EXPECT_EQ(Difference(kind, kRankOne, seen), "found host_oom, not killed");
  seen = right;
  seen.rung = "stop";
  EXPECT_EQ(Difference(kind, kRankOne, seen), "decided stop, not restart process");
  seen = right;
  seen.rank = 0;
  EXPECT_EQ(Difference(kind, kRankOne, seen), "blamed rank 0, not rank 1");
  seen = right;
  seen.found_after = Duration::Seconds(21);
  EXPECT_EQ(Difference(kind, kRankOne, seen), "found after more than 20s");
  seen = right;
  seen.trained_after.reset();
  EXPECT_EQ(Difference(kind, kRankOne, seen), "the ranks do not train again");
}

TEST(Seen, AHangHasTheClassOfItsVerdict) {
  std::vector<JobEvent> events = {
      DrillEvent(3, "world_formed", {}), DrillEvent(4, "world_running", {3}),
      DrillEvent(5, "hang_judged", {3}, {{"hang", "busy"}, {"acts", "true"}}),
      DrillEvent(6, "rank_failed", {5}, {{"how", "hung"}, {"charged", "true"}}),
      DrillEvent(7, "recovery_decided", {6}, {{"rung", "restart process"}})};
  for (JobEvent& event : events) event.rank = 1;
  const Seen seen = SeenIn(events, kRankOne);
  EXPECT_EQ(seen.found, "busy");
  EXPECT_FALSE(IsComplete(*FindDrillKind("c_loop"), seen));
  events.push_back(DrillEvent(8, "world_formed", {7}));
  events.push_back(DrillEvent(9, "world_running", {8}));
  EXPECT_TRUE(IsComplete(*FindDrillKind("c_loop"), SeenIn(events, kRankOne)));
}

TEST(Seen, WhatIsOnlyToldMustNotBeActedOn) {
  std::vector<JobEvent> events = {DrillEvent(3, "world_formed", {}),
                                  DrillEvent(4, "world_running", {3}),
                                  DrillEvent(5, "rank_slow", {3})};
  events.back().rank = 1;
  const DrillKind& kind = *FindDrillKind("slow_rank");
  EXPECT_EQ(Difference(kind, kRankOne, SeenIn(events, kRankOne)), "");
  events.push_back(DrillEvent(6, "recovery_decided", {5}, {{"rung", "restart process"}}));
  EXPECT_EQ(Difference(kind, kRankOne, SeenIn(events, kRankOne)),
            "decided restart process, not nothing");
}

TEST(Seen, ALostNodeMustBeTheStruckOne) {
  const Struck node{.time_ns = 4 * kTenth + 1, .node = "node1"};
  std::vector<JobEvent> events = {
      DrillEvent(3, "world_formed", {}),
      DrillEvent(4, "world_running", {3}),
      DrillEvent(5, "node_lost", {3}),
      DrillEvent(6, "recovery_decided", {5}, {{"rung", "replace node"}}),
      DrillEvent(7, "world_formed", {6}),
      DrillEvent(8, "world_running", {7})};
  const DrillKind& kind = *FindDrillKind("node_kill");
  events[2].node = "node1";
  EXPECT_EQ(Difference(kind, node, SeenIn(events, node)), "");
  events[2].node = "node0";
  EXPECT_EQ(Difference(kind, node, SeenIn(events, node)), "blamed node0, not node1");
}

TEST(DrillKinds, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const DrillKind& kind : DrillKinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_FALSE(kind.found.empty()) << kind.name;
    EXPECT_GT(kind.deadline, Duration()) << kind.name;
  }
  EXPECT_GE(names.size(), 24U);
}

TEST(DrillKinds, NameFaultsThatTheSimulatorHas) {
  std::set<std::string_view> faults;
  for (const sim::Fault& fault : sim::AllFaults()) faults.insert(fault.name);
  for (const DrillKind& kind : DrillKinds()) {
    if (kind.simulated.empty()) continue;
    EXPECT_TRUE(faults.contains(kind.simulated)) << kind.simulated;
  }
}

}  // namespace
}  // namespace paceline::cli
