#include "paceline/core/detect/detectors.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "paceline/core/test_times.h"

namespace paceline::core {
namespace {

using Kind = Verdict::Kind;

// A job of one node. Its world was formed at second 10, and it was last heard at second 20.
struct OneNode {
  OneNode() {
    state.phase = Phase::kRunning;
    state.phase_since = At(10'000);
    World world;
    world.generation = Generation(1);
    world.seats = {{.node = NodeId(1), .first_rank = 0, .rank_count = 2}};
    state.world = state.last_world = world;
    NodeState& node = state.nodes[NodeId(1)];
    node.id = NodeId(1);
    node.name = "n1";
    node.slots = 2;
    node.status = NodeState::Status::kSeated;
    link.connection = ConnectionId(1);
    link.registered = true;
    link.last_heard = At(20'000);
    link.carried_out = Generation(1);
    link.running = true;
    watch.saved_at = link.last_heard;  // no step is lost with it
  }
  NodeView view() const { return {state, *state.Find(NodeId(1)), link, watch}; }
  Verdict Judge(int64_t ms) const { return JudgeNode(view(), At(ms)); }

  JobState state;
  NodeLink link;
  Watch watch;
};

// One variation of a case; every combination is tried.
using Change = std::function<void(OneNode&)>;
const std::vector<std::vector<Change>>& Changes() {
  static const std::vector<std::vector<Change>> kChanges = {
      {[](OneNode&) {},
       [](OneNode& n) {
         n.link.connection.reset();
         n.link.disconnected_at = At(20'500);
       },
       [](OneNode& n) {
         n.link.connection.reset();
         n.link.registered = false;
       }},
      {[](OneNode&) {}, [](OneNode& n) { n.link.gone = true; }},
      {[](OneNode&) {}, [](OneNode& n) { n.link.loop_delay = Duration::Milliseconds(300); }},
      {[](OneNode&) {}, [](OneNode& n) { n.state.phase = Phase::kStarting; },
       [](OneNode& n) {
         n.state.phase = Phase::kWaiting;
         n.state.world.reset();
       }},
      {[](OneNode&) {}, [](OneNode& n) { n.link.running = false; }},
      {[](OneNode&) {}, [](OneNode& n) { n.link.carried_out = Generation(); },
       [](OneNode& n) {
         n.link.carried_out = Generation();
         n.link.awaits_starter = true;
       }},
  };
  return kChanges;
}

void ForEachCase(const std::function<void(const OneNode&)>& body, size_t axis = 0,
                 const OneNode& node = OneNode()) {
  if (axis == Changes().size()) {
    body(node);
    return;
  }
  for (const Change& change : Changes()[axis]) {
    OneNode changed = node;
    change(changed);
    ForEachCase(body, axis + 1, changed);
  }
}

TEST(DetectorsTest, AreSilentOnAHealthyNode) {
  const OneNode node;
  for (const Detector& detector : Detectors()) {
    const Verdict verdict = detector.judge(node.view(), At(20'010));
    EXPECT_EQ(verdict.kind, Kind::kHealthy) << detector.name << ": " << verdict.reason;
  }
}

TEST(DetectorsTest, KeepTheirContractInEveryCase) {
  ForEachCase([](const OneNode& node) {
    for (const Detector& detector : Detectors()) {
      for (const int64_t ms : {20'000, 20'400, 20'900, 22'000, 24'000, 30'000, 69'999, 80'000}) {
        const Verdict verdict = detector.judge(node.view(), At(ms));
        const Verdict again = detector.judge(node.view(), At(ms));
        EXPECT_EQ(verdict.kind, again.kind) << detector.name;
        EXPECT_EQ(verdict.reason, again.reason) << detector.name;
        EXPECT_GT(verdict.until, At(ms)) << detector.name << " at " << ms;
        if (verdict.kind != Kind::kHealthy) {
          EXPECT_FALSE(verdict.reason.empty()) << detector.name;
        }
        if (verdict.until.is_max()) continue;
        const Instant last = verdict.until - Duration::Nanoseconds(1);
        EXPECT_EQ(detector.judge(node.view(), last).kind, verdict.kind)
            << detector.name << " at " << ms << " changes before it said";
      }
    }
  });
}

TEST(DetectorsTest, SilenceIsSuspectAfterTwoBeatsAndLostAfterTwoSeconds) {
  const OneNode node;
  EXPECT_EQ(node.Judge(20'499).kind, Kind::kHealthy);
  EXPECT_EQ(node.Judge(20'500).kind, Kind::kSuspect);
  EXPECT_EQ(node.Judge(21'999).kind, Kind::kSuspect);
  EXPECT_EQ(node.Judge(22'000).kind, Kind::kLost);
  EXPECT_EQ(node.Judge(22'000).reason, "was silent for 2 s (limit 2 s)");
}

TEST(DetectorsTest, SilenceIsWaitedForAsLongAsGoingOnWouldCost) {
  OneNode node;
  node.watch.restart_took = Duration::Milliseconds(1'500);
  node.watch.saved_at = At(16'000);
  EXPECT_EQ(node.Judge(25'499).kind, Kind::kSuspect);
  EXPECT_EQ(node.Judge(25'500).kind, Kind::kLost);
  EXPECT_EQ(node.Judge(25'500).reason,
            "was silent for 5.5 s (limit 5.5 s: going on without it costs 4 s of training and a "
            "restart of 1.5 s)");
  // The world was formed again since, so those steps are lost already.
  node.state.world_since = At(19'900);
  EXPECT_EQ(node.Judge(22'000).kind, Kind::kLost);
}

TEST(DetectorsTest, SilenceIsWaitedForNoLongerThanTheMost) {
  OneNode node;
  node.watch.saved_at = At(1);
  node.link.loop_delay = Duration::Seconds(1);
  EXPECT_EQ(node.Judge(34'999).kind, Kind::kSuspect);
  EXPECT_EQ(node.Judge(35'000).kind, Kind::kLost);
}

TEST(DetectorsTest, NothingIsLostWithASpareOrBeforeTheFirstStep) {
  OneNode spare;
  spare.watch.saved_at = At(1);
  OneNode starts = spare;
  spare.state.nodes[NodeId(1)].status = NodeState::Status::kSpare;
  starts.state.phase = Phase::kStarting;
  starts.state.phase_since = At(20'000);
  for (const OneNode& node : {spare, starts}) {
    EXPECT_EQ(node.Judge(21'999).kind, Kind::kSuspect);
    EXPECT_EQ(node.Judge(22'000).kind, Kind::kLost);
  }
}

TEST(DetectorsTest, AnAgentThatRunsLateIsGivenItsDelay) {
  OneNode node;
  node.link.loop_delay = Duration::Milliseconds(250);
  EXPECT_EQ(node.Judge(22'999).kind, Kind::kSuspect);
  EXPECT_EQ(node.Judge(23'000).kind, Kind::kLost);
}

TEST(DetectorsTest, AStreamThatBreaksWhileItsNodeIsHeardIsGivenThreeSeconds) {
  OneNode node;
  node.watch.saved_at = At(1);  // whatever the steps cost: the host itself has answered
  node.link.connection.reset();
  node.link.disconnected_at = At(20'000);
  EXPECT_EQ(node.Judge(22'999).kind, Kind::kSuspect);
  EXPECT_EQ(node.Judge(23'000).kind, Kind::kLost);
  node.link.gone = true;
  EXPECT_EQ(node.Judge(20'001).kind, Kind::kLost);
}

TEST(DetectorsTest, AStreamThatBreaksAfterSilenceIsSilence) {
  OneNode node;
  node.watch.saved_at = At(12'000);
  node.link.connection.reset();
  node.link.disconnected_at = At(25'000);
  EXPECT_EQ(node.Judge(28'999).kind, Kind::kSuspect);
  EXPECT_EQ(node.Judge(29'000).kind, Kind::kLost) << "9 s after it was heard";
}

TEST(DetectorsTest, ANewMasterWaitsForItsNodes) {
  OneNode node;
  node.link.connection.reset();
  node.link.registered = false;
  EXPECT_EQ(node.Judge(24'999).kind, Kind::kSuspect);
  EXPECT_EQ(node.Judge(25'000).kind, Kind::kLost);
}

TEST(DetectorsTest, ANodeThatDoesNotStartItsRanksIsLostAndOneWhoseRanksHangIsStuck) {
  OneNode node;
  node.state.phase = Phase::kStarting;
  node.link.running = false;
  node.link.last_heard = At(70'000);
  EXPECT_EQ(node.Judge(69'999).kind, Kind::kHealthy);
  EXPECT_EQ(node.Judge(70'000).kind, Kind::kStuck);
  node.link.carried_out = Generation();
  EXPECT_EQ(node.Judge(70'000).kind, Kind::kLost);
}

TEST(DetectorsTest, ANodeWhoseStarterImportsIsWaitedForTenTimesAsLong) {
  OneNode node;
  node.state.phase = Phase::kStarting;
  node.link.running = false;
  node.link.carried_out = Generation();
  node.link.awaits_starter = true;
  node.link.last_heard = At(70'000);
  EXPECT_EQ(node.Judge(70'000).kind, Kind::kHealthy);
  node.link.last_heard = At(610'000);
  EXPECT_EQ(node.Judge(609'999).kind, Kind::kHealthy);
  const Verdict late = node.Judge(610'000);
  EXPECT_EQ(late.kind, Kind::kLost);
  EXPECT_EQ(late.reason, "did not finish the imports for its ranks within 10 min");
}

TEST(DetectorsTest, HeartbeatsOfManyNodesAreStretched) {
  JobSpec spec;
  spec.nodes_max = 10'000;
  EXPECT_EQ(HeartbeatInterval(spec), Duration::Seconds(1));
  EXPECT_EQ(SilenceLimitMin(spec, Duration()), Duration::Seconds(4));
  EXPECT_EQ(SilenceLimitMin(spec, Duration::Seconds(60)), spec.timers.lost_after_max);
}

}  // namespace
}  // namespace paceline::core
