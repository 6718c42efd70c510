// Checks of the user: a node is a candidate once its checks are over, and never after a failure.

#include "paceline/core/world/node_check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/number_text.h"
#include "paceline/base/text.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

using State = NodeCheck::State;

class NodeCheckTest : public ::testing::Test {
 protected:
  using Names = std::vector<std::string>;

  void Begin(uint32_t nodes_min, uint32_t nodes_max, uint32_t spares = 0) {
    JobSpec spec;
    spec.job_id = "checked";
    spec.nodes_min = nodes_min;
    spec.nodes_max = nodes_max;
    spec.spares = spares;
    Step(JobSubmitted{spec});
    Step(MasterStarted{1});
  }
  void Step(const Event& event) {
    for (const Record& record : job_.Step(now_, event).records) records_.push_back(record);
  }
  void Register(uint32_t node, State state, std::string reason = "", uint64_t agent = 1) {
    NodeReport report = TestReport("n" + std::to_string(node));
    report.store_port = 30'000 + node;
    report.agent_incarnation = agent;
    report.check = {.state = state, .reason = std::move(reason)};
    Step(NodeRegistered{ConnectionId(node), report});
  }
  void End(uint32_t node, State state, std::string reason = "") {
    Step(NodeCheckEnded{NodeId(node),
                        ConnectionId(node),
                        {.state = state, .reason = std::move(reason), .numbers = "{\"a\":1}"}});
  }
  void Pass(Duration time) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ += Duration::Milliseconds(100);
      for (const auto& [id, node] : job_.state().nodes) {
        Step(NodeReported{.node = id,
                          .connection = ConnectionId(id.value()),
                          .generation = job_.state().generation,
                          .store_port = 30'000 + id.value()});
      }
    }
  }
  void Measure(uint32_t node, double matmul, double memory, uint32_t round) {
    Step(NodeCheckEnded{NodeId(node),
                        ConnectionId(node),
                        {.state = State::kPassed,
                         .reason = "",
                         .numbers = Concat("{\"host\":{\"matmul_gflops\":", FixedText(matmul, 1),
                                           ",\"memory_gb_s\":", FixedText(memory, 1), "}}"),
                         .round = round}});
  }
  // Four hosts for three or four seats, of which n2 has half the speed.
  void BeginMeasured(uint32_t nodes_max = 4) {
    Begin(3, nodes_max, 4 - nodes_max);
    for (uint32_t node = 1; node <= 4; ++node) Register(node, State::kRunning);
    Measure(1, 8.0, 10.0, 0);
    Measure(2, 4.0, 10.0, 0);
    Measure(3, 7.5, 9.0, 0);
    EXPECT_EQ(Names{}, Seated());
    Measure(4, 8.2, 11.0, 0);
  }
  // Of the checks that the node was told to run.
  uint32_t RoundFor(uint32_t node) const {
    return DesiredAssignment(job_.state(), NodeId(node)).check_round;
  }
  void IsFolded() const {
    Job again;
    for (const Record& record : records_) again.Restore(record);
    EXPECT_EQ(again.state(), job_.state());
  }
  std::vector<std::string> Seated() const {
    std::vector<std::string> names;
    if (!job_.state().world.has_value()) return names;
    for (const Seat& seat : job_.state().world->seats)
      names.push_back(job_.state().NameOf(seat.node));
    return names;
  }
  uint32_t Count(std::string_view kind) const {
    return static_cast<uint32_t>(std::ranges::count_if(
        records_, [&](const Record& record) { return FactName(record.fact) == kind; }));
  }

  Instant now_ = Instant() + Duration::Seconds(100);
  Job job_;
  std::vector<Record> records_;
};

TEST_F(NodeCheckTest, AWorldWaitsForTheChecks) {
  Begin(2, 2);
  Register(1, State::kRunning);
  Register(2, State::kPassed, "8 GPUs");
  Pass(Duration::Seconds(5));
  EXPECT_EQ(Names{}, Seated());
  EXPECT_EQ("waits for nodes: 1 of at least 2 are here; n1 is being checked", job_.Pending());
  End(1, State::kPassed);
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
  EXPECT_EQ(2u, Count("node_checked"));
  Register(2, State::kPassed, "8 GPUs");  // the same agent, on a new stream
  EXPECT_EQ(2u, Count("node_checked"));
}

TEST_F(NodeCheckTest, ANodeThatFailedIsNotSeatedAndASpareIs) {
  Begin(2, 2, 1);
  Register(1, State::kRunning);
  Register(2, State::kRunning);
  Register(3, State::kRunning);
  End(3, State::kPassed);
  End(1, State::kPassed);
  End(2, State::kFailed, "gpu.sh: one GPU is missing");
  Pass(Duration::Seconds(1));
  EXPECT_EQ((Names{"n1", "n3"}), Seated());
  const NodeState* bad = job_.state().Find("n2");
  EXPECT_EQ(NodeState::Status::kEvicted, bad->status);
  EXPECT_EQ("failed its checks: gpu.sh: one GPU is missing", bad->reason);
  EXPECT_EQ("{\"a\":1}", bad->check->numbers);
}

TEST_F(NodeCheckTest, WithTheMinimumTheJobStartsWithoutIt) {
  Begin(1, 2);
  Register(1, State::kPassed);
  Register(2, State::kFailed, "gpu.sh: a fan");
  Pass(Duration::Seconds(5));
  EXPECT_EQ(Names{"n1"}, Seated());
}

TEST_F(NodeCheckTest, TheFirstWorldWaitsForChecksBeyondItsWindow) {
  Begin(1, 2);
  Register(1, State::kPassed);
  Register(2, State::kRunning);
  Pass(Duration::Seconds(30));
  EXPECT_EQ(Names{}, Seated());
  EXPECT_EQ("waits for more nodes, up to 2: 1 are here; n2 is being checked", job_.Pending());
  End(2, State::kPassed);
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
}

TEST_F(NodeCheckTest, AHostThatIsLostInItsChecksIsNotWaitedFor) {
  Begin(1, 2);
  Register(1, State::kPassed);
  Register(2, State::kRunning);
  Pass(Duration::Seconds(5));
  EXPECT_EQ(Names{}, Seated());
  Step(NodeDisconnected{NodeId(2), ConnectionId(2)});
  Pass(Duration::Seconds(1));
  EXPECT_EQ(Names{"n1"}, Seated());
}

TEST_F(NodeCheckTest, BelowTheMinimumTheJobSaysWhatItWaitsFor) {
  Begin(2, 2);
  Register(1, State::kPassed);
  Register(2, State::kFailed, "gpu.sh: a fan");
  Pass(Duration::Seconds(5));
  EXPECT_EQ(Names{}, Seated());
  EXPECT_EQ("waits for nodes: 1 of at least 2 are here; n2 failed its checks: gpu.sh: a fan",
            job_.Pending());
  // Somebody repairs the host and starts the command there again.
  Register(2, State::kPassed, "", 2);
  Pass(Duration::Seconds(1));
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
}

TEST_F(NodeCheckTest, ANewMasterKnowsWhatFailed) {
  Begin(2, 2);
  Register(1, State::kPassed);
  Register(2, State::kFailed, "gpu.sh: a fan");
  Job next;
  for (const Record& record : records_) next.Restore(record);
  EXPECT_EQ(next.state(), job_.state());
  job_ = next;
  Step(MasterStarted{2});
  Register(1, State::kPassed);
  Register(2, State::kFailed, "gpu.sh: a fan");
  Pass(Duration::Seconds(8));
  EXPECT_EQ(Names{}, Seated());
  EXPECT_EQ(State::kFailed, job_.state().Find("n2")->check->state);
}

TEST_F(NodeCheckTest, AHostThatIsMuchSlowerThanTheOthersTwiceIsTakenOut) {
  BeginMeasured();
  EXPECT_EQ(Names{}, Seated());
  EXPECT_EQ(1u, Count("node_check_ordered"));
  EXPECT_EQ(1u, RoundFor(2));
  Pass(Duration::Seconds(10));
  EXPECT_EQ(Names{}, Seated());
  EXPECT_NE(std::string::npos, job_.Pending().find("n2 is being checked once more"))
      << job_.Pending();
  Measure(2, 4.1, 10.0, 0);  // an old message says nothing new
  EXPECT_EQ(Names{}, Seated());
  Measure(2, 4.2, 10.0, 1);
  Pass(Duration::Seconds(30));  // the join window
  EXPECT_EQ((Names{"n1", "n3", "n4"}), Seated());
  EXPECT_EQ(
      "failed its checks: host: matmul (GFLOP/s): 4.2, and the median of the other nodes is 8.0; "
      "it was as slow when it was measured before",
      job_.state().Find("n2")->reason);
  EXPECT_EQ(1u, Count("node_evicted"));
  // A spare that comes later is compared with those that train.
  Register(5, State::kRunning);
  Measure(5, 8.0, 5.0, 0);
  EXPECT_EQ(NodeState::Status::kSpare, job_.state().Find("n5")->status);
  Measure(5, 8.0, 5.0, 1);
  EXPECT_EQ(NodeState::Status::kEvicted, job_.state().Find("n5")->status);
  IsFolded();
}

TEST_F(NodeCheckTest, AHostThatWasSlowOnlyOnceIsSeated) {
  BeginMeasured();
  Measure(2, 7.9, 10.0, 1);
  Pass(Duration::Seconds(1));
  EXPECT_EQ((Names{"n1", "n2", "n3", "n4"}), Seated());
  EXPECT_EQ(0u, Count("node_evicted"));
  IsFolded();
}

TEST_F(NodeCheckTest, AnAgentThatIsStartedAnewIsAskedAgain) {
  BeginMeasured();
  Register(2, State::kPassed, "", 2);  // it knows nothing of the second round
  EXPECT_EQ(Names{}, Seated());
  EXPECT_EQ(1u, RoundFor(2));
  Measure(2, 7.9, 10.0, 1);
  Pass(Duration::Seconds(1));
  EXPECT_EQ((Names{"n1", "n2", "n3", "n4"}), Seated());
}

TEST_F(NodeCheckTest, ANewMasterWaitsForTheSecondMeasurement) {
  BeginMeasured();
  Job next;
  for (const Record& record : records_) next.Restore(record);
  job_ = next;
  Step(MasterStarted{2});
  for (uint32_t node = 1; node <= 4; ++node) Register(node, State::kPassed);
  Pass(Duration::Seconds(8));
  EXPECT_EQ(Names{}, Seated());
  Measure(2, 7.9, 10.0, 1);
  Pass(Duration::Seconds(8));
  EXPECT_EQ((Names{"n1", "n2", "n3", "n4"}), Seated());
}

TEST_F(NodeCheckTest, AWorldThatIsFullWithoutASlowHostDoesNotWaitForIt) {
  BeginMeasured(3);
  EXPECT_EQ((Names{"n1", "n3", "n4"}), Seated());
  Measure(2, 4.2, 10.0, 1);
  EXPECT_EQ(NodeState::Status::kEvicted, job_.state().Find("n2")->status);
}

TEST_F(NodeCheckTest, OfTwoHostsNoneIsTheOddOne) {
  Begin(2, 2);
  Register(1, State::kRunning);
  Register(2, State::kRunning);
  const std::string slow = "{\"host\":{\"matmul_gflops\":1,\"memory_gb_s\":1}}";
  const std::string fast = "{\"host\":{\"matmul_gflops\":9,\"memory_gb_s\":9}}";
  for (const uint32_t node : {1u, 2u}) {
    Step(NodeCheckEnded{
        NodeId(node),
        ConnectionId(node),
        {.state = State::kPassed, .reason = "", .numbers = node == 1 ? slow : fast}});
  }
  EXPECT_EQ((Names{"n1", "n2"}), Seated());
}

TEST_F(NodeCheckTest, NumbersOfAnyFormAreNoReason) {
  Begin(3, 3);
  const Names numbers = {"[]", "{\"host\":{}}", "{\"host\":{\"matmul_gflops\":\"x\"}}"};
  for (uint32_t node = 1; node <= 3; ++node) {
    Register(node, State::kRunning);
    Step(NodeCheckEnded{NodeId(node),
                        ConnectionId(node),
                        {.state = State::kPassed, .reason = "", .numbers = numbers[node - 1]}});
  }
  Pass(Duration::Seconds(3));
  EXPECT_EQ((Names{"n1", "n2", "n3"}), Seated());
}

TEST_F(NodeCheckTest, AMessageOfAnOldStreamIsIgnored) {
  Begin(1, 1);
  Register(1, State::kRunning);
  Step(NodeCheckEnded{NodeId(1), ConnectionId(9), {.state = State::kPassed}});
  Pass(Duration::Seconds(1));
  EXPECT_EQ(Names{}, Seated());
  Step(NodeDisconnected{NodeId(1), ConnectionId(1)});
  EXPECT_TRUE(job_.Pending().starts_with("waits for nodes: 0 of at least 1 are here"));
}

}  // namespace
}  // namespace paceline::core
