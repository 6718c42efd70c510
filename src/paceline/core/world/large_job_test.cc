// Costs in a job with thousands of nodes: an event of one node sends to and judges that node alone,
// and a new world is sent once to each.

#include <algorithm>
#include <map>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/detect/detectors.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

constexpr uint32_t kNodes = 2000;

class LargeJob : public ::testing::Test {
 protected:
  LargeJob() {
    JobSpec spec;
    spec.job_id = "large";
    spec.nodes_min = spec.nodes_max = kNodes;
    spec.spares = 1;
    interval_ = HeartbeatInterval(spec);
    job_.Step(now_, JobSubmitted{spec});
    job_.Step(now_, MasterStarted{1});
  }

  std::vector<NodeId> Told(const Actions& actions) {
    std::vector<NodeId> told;
    for (const Effect& effect : actions.effects) {
      const auto* assign = std::get_if<AssignNode>(&effect);
      if (assign == nullptr) continue;
      told.push_back(assign->node);
      assigned_[assign->node] = assign->assignment;
    }
    return told;
  }

  Actions Register(uint32_t number) {
    now_ = now_ + Duration::Microseconds(100);
    return job_.Step(
        now_, NodeRegistered{ConnectionId(number), TestReport("n" + std::to_string(number))});
  }

  Actions Beat(uint32_t number) {
    return job_.Step(now_, NodeReported{.node = NodeId(number),
                                        .connection = ConnectionId(number),
                                        .generation = assigned_[NodeId(number)].generation,
                                        .store_port = 20'001});
  }

  void JoinAll() {
    for (uint32_t i = 1; i <= kNodes; ++i) Told(Register(i));
    Told(Register(kNodes + 1));
  }

  Job job_;
  Instant now_ = Instant() + Duration::Seconds(1);
  Duration interval_;
  std::map<NodeId, Assignment> assigned_;
};

TEST_F(LargeJob, AJoinTellsTheNodeThatJoined) {
  for (uint32_t i = 1; i < kNodes; ++i) {
    ASSERT_EQ(Told(Register(i)), std::vector<NodeId>{NodeId(i)});
    ASSERT_EQ(assigned_[NodeId(i)].kind, Assignment::Kind::kIdle);
  }
  EXPECT_EQ(Told(Register(kNodes)).size(), kNodes) << "the last one completes the world";
  EXPECT_EQ(Told(Register(kNodes + 1)), std::vector<NodeId>{NodeId(kNodes + 1)});
}

TEST_F(LargeJob, ABeatTellsNobody) {
  JoinAll();
  for (int round = 0; round < 3; ++round) {
    now_ = now_ + interval_;
    for (uint32_t i = 1; i <= kNodes + 1; ++i) {
      const Actions actions = Beat(i);
      ASSERT_TRUE(actions.records.empty());
      ASSERT_TRUE(actions.effects.empty());
    }
  }
}

TEST_F(LargeJob, OneSilentNodeAmongThousandsIsReplaced) {
  JoinAll();
  const uint32_t seat = assigned_[NodeId(7)].seat;
  const Instant silent_since = now_;
  std::vector<NodeId> told;
  while (told.empty() && now_ < silent_since + Duration::Seconds(30)) {
    now_ = now_ + interval_;
    for (uint32_t i = 1; i <= kNodes + 1 && told.empty(); ++i) {
      if (i != 7) told = Told(Beat(i));
    }
  }
  EXPECT_LE(now_ - silent_since, Duration::Seconds(3));
  EXPECT_EQ(job_.state().Find(NodeId(7))->status, NodeState::Status::kLost);
  std::sort(told.begin(), told.end());
  EXPECT_EQ(std::adjacent_find(told.begin(), told.end()), told.end()) << "each once";
  EXPECT_EQ(told.size(), kNodes + 1);
  EXPECT_EQ(assigned_[NodeId(kNodes + 1)].seat, seat);
  EXPECT_EQ(assigned_[NodeId(kNodes + 1)].kind, Assignment::Kind::kRun);
  EXPECT_EQ(assigned_[NodeId(7)].kind, Assignment::Kind::kIdle);
}

TEST(HeartbeatInterval, GrowsSoThatTheMasterHearsAtMostItsBudget) {
  JobSpec spec;
  spec.nodes_max = 1000;
  EXPECT_EQ(HeartbeatInterval(spec), spec.timers.heartbeat_interval);
  spec.nodes_max = 10'000;
  EXPECT_EQ(HeartbeatInterval(spec), Duration::Seconds(1));
  EXPECT_EQ(SilenceLimitMin(spec, Duration()), Duration::Seconds(4));
}

}  // namespace
}  // namespace paceline::core
