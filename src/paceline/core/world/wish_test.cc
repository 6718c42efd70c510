#include "paceline/core/world/wish.h"
#include "paceline/core/turn.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/job.h"
#include "paceline/core/succession/memo.h"
#include "paceline/core/turn.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

using Status = NodeState::Status;

// Two nodes and a spare, started by a platform.
class WishTest : public ::testing::Test {
 protected:
  WishTest() {
    JobSpec spec;
    spec.job_id = "wish";
    spec.nproc_per_node = 1;
    spec.nodes_min = 1;
    spec.nodes_max = 2;
    spec.spares = 1;
    spec.is_placed = true;
    Step(JobSubmitted{spec});
    Step(MasterStarted{1});
  }

  void Step(const Event& event) {
    now_ += Duration::Milliseconds(10);
    actions_ = job_.Step(now_, event);
    for (const Effect& effect : actions_.effects) {
      if (const auto* told = std::get_if<TellWish>(&effect)) wishes_.push_back(told->wish);
      if (const auto* refusal = std::get_if<RefuseNode>(&effect)) refused_.push_back(*refusal);
    }
    for (const Record& record : actions_.records) told_ += Sentence(record) + "\n";
  }

  // The agent of that incarnation, on a new connection.
  ConnectionId Register(uint32_t index, uint32_t incarnation) {
    NodeReport report = TestReport(NameOfNode(index));
    report.boot_id = "boot " + report.name + " " + std::to_string(incarnation);
    return Register(report, incarnation);
  }
  ConnectionId Register(NodeReport report, uint32_t incarnation) {
    const ConnectionId connection(++connections_);
    report.incarnation = incarnation;
    report.agent_incarnation = incarnation + 1;
    Step(NodeRegistered{connection, std::move(report)});
    return connection;
  }
  // The agent in a pod on a host that never reboots: only the pod's address is new.
  void RegisterPod(uint32_t index, uint32_t incarnation, std::string address) {
    NodeReport report = TestReport(NameOfNode(index));
    report.address = std::move(address);
    Register(std::move(report), incarnation);
  }

  void Gone(uint32_t index, uint32_t incarnation) {
    Step(
        NodeGone{.name = NameOfNode(index), .evidence = "was deleted", .incarnation = incarnation});
  }

  void Notice(uint32_t index, uint32_t incarnation, Duration left) {
    Step(NoticeCame{
        .name = NameOfNode(index), .incarnation = incarnation, .left = left, .why = "SIGTERM"});
  }

  void Commit(int64_t step) {
    job_.Restore(
        {.seq = job_.state().last_seq.next(),
         .at = now_,
         .fact = CheckpointCommitted{.name = "a", .directory = "/runs", .saved = {1, step}}});
  }

  // All agents are heard, and offer a port.
  void Pass(Duration time) {
    const Instant until = now_ + time;
    while (now_ < until) {
      now_ += Duration::Milliseconds(200);
      for (const auto& [id, link] : job_.links()) {
        if (!link.connection) continue;
        Step(NodeReported{.node = id,
                          .connection = *link.connection,
                          .generation = job_.state().generation,
                          .store_port = 30'000 + id.value()});
      }
      Step(TimePassed{});
    }
  }

  // The rank of that node in the present world.
  void FailToStart(uint32_t index) {
    const NodeId node = job_.state().Find(NameOfNode(index))->id;
    RankReport rank;
    rank.generation = job_.state().world->generation;
    rank.rank = Rank(job_.state().SeatOf(*job_.state().Find(node)).first_rank);
    rank.state = RankReport::State::kExited;
    rank.exit.kind = ExitCause::Kind::kNotStarted;
    rank.exit.headline = "could not start its worker processes: No such file or directory";
    Step(NodeReported{.node = node,
                      .connection = *job_.links().find(node)->second.connection,
                      .generation = rank.generation,
                      .ranks = {rank}});
  }

  Status StatusOf(uint32_t index) { return job_.state().Find(NameOfNode(index))->status; }

  Job job_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
  Actions actions_;
  uint64_t connections_ = 0;
  std::vector<Wish> wishes_;
  std::vector<RefuseNode> refused_;
  std::string told_;  // all sentences
};

// The platform's name of the host, and ranks that cannot start there.
TEST_F(WishTest, TheHostOfANodeThatCannotStartItsRanksIsExcluded) {
  for (uint32_t index = 0; index < 2; ++index) {
    NodeReport report = TestReport(NameOfNode(index));
    report.boot_id = "boot " + report.name;
    report.host = "rack1-host" + std::to_string(index);
    report.slots = 1;
    Register(std::move(report), 0);
  }
  for (int attempt = 0; attempt < 10 && StatusOf(1) != Status::kEvicted; ++attempt) {
    for (int i = 0; i < 100 && !job_.state().world.has_value(); ++i) Pass(Duration::Seconds(1));
    ASSERT_TRUE(job_.state().world.has_value());
    EXPECT_TRUE(wishes_.back().excluded.empty()) << "one failure may be chance";
    FailToStart(1);
  }
  ASSERT_EQ(StatusOf(1), Status::kEvicted);
  const NodeId evicted = job_.state().Find(NameOfNode(1))->id;
  EXPECT_EQ(DesiredAssignment(job_.state(), evicted).grace, Duration()) << "its world has failed";
  EXPECT_EQ(wishes_.back().excluded, std::vector<std::string>{"rack1-host1"});
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u) << "the node itself is wanted elsewhere";
  EXPECT_NE(told_.find("its host rack1-host1 gets no node of the job any more"), std::string::npos);
  JobState next;
  Apply(MemoOf(job_.state()), &next);
  EXPECT_EQ(next.excluded, wishes_.back().excluded) << "also without a copy of the journal";
}

TEST_F(WishTest, TheFirstWishAsksForAllNodes) {
  ASSERT_FALSE(wishes_.empty());
  EXPECT_EQ(wishes_.back().intent, Wish::Intent::kRun);
  EXPECT_EQ(wishes_.back().size, 2u);
  EXPECT_EQ(wishes_.back().spares, 1u);
  EXPECT_TRUE(wishes_.back().incarnations.empty());
  wishes_.clear();
  Register(0, 0);
  Register(1, 0);
  EXPECT_TRUE(wishes_.empty());  // nothing else is wished for
}

TEST_F(WishTest, ALostNodeIsWishedForInItsNextIncarnation) {
  Register(1, 0);
  Gone(1, 0);
  EXPECT_EQ(StatusOf(1), Status::kLost);
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u);
  // The platform may report it twice.
  Gone(1, 0);
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u);
  Register(1, 1);
  EXPECT_EQ(StatusOf(1), Status::kSpare);
  EXPECT_TRUE(refused_.empty());
}

// The platform reports the death of a host before the TCP connection of its agent breaks.
TEST_F(WishTest, ANextIncarnationCountsBeforeTheFormerConnectionEnds) {
  Register(0, 0);
  Gone(0, 0);
  Register(0, 1);
  Pass(job_.state().spec.timers.join_window + Duration::Seconds(5));
  EXPECT_EQ(StatusOf(0), Status::kSeated) << told_;
}

// The master's machine was paused. What the nodes have sent meanwhile is read one after the other.
TEST_F(WishTest, AMasterThatStoodStillDoesNotCallAStartTooLong) {
  for (uint32_t index = 0; index < 2; ++index) Register(index, 0);
  Pass(Duration::Seconds(5));
  ASSERT_EQ(job_.state().phase, Phase::kStarting);
  const Generation generation = job_.state().world->generation;
  now_ += job_.state().spec.timers.start_timeout;
  Pass(Duration::Seconds(1));
  ASSERT_TRUE(job_.state().world.has_value());
  EXPECT_EQ(job_.state().world->generation, generation) << told_;
}

TEST_F(WishTest, ANoticeAsksForTheNextIncarnationAndTheNodeTrainsOn) {
  Register(0, 0);
  Register(1, 0);
  Pass(Duration::Seconds(5));
  ASSERT_EQ(StatusOf(1), Status::kSeated);
  Notice(1, 0, Duration::Seconds(30));
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u);
  EXPECT_EQ(StatusOf(1), Status::kSeated);
  EXPECT_EQ(job_.state().wished.at(1).replaced, 0u) << "no fault of the node";
  const size_t told = wishes_.size();
  Notice(1, 0, Duration::Seconds(29));  // a new stream tells it again
  EXPECT_EQ(wishes_.size(), told);
  EXPECT_FALSE(IsFenced(job_.state(), "node1", 0)) << "its connection may break before it leaves";

  Register(1, 1);
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0].code, "PL-E112");
  EXPECT_TRUE(refused_[0].retry);
  EXPECT_EQ(StatusOf(1), Status::kSeated);

  Pass(Duration::Seconds(28));
  EXPECT_EQ(StatusOf(1), Status::kLeft) << "two seconds before its end";
  EXPECT_EQ(job_.state().Find("node1")->departures, 0u);
  Gone(1, 0);
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u) << "it was replaced when the notice came";
  Register(1, 1);
  EXPECT_NE(StatusOf(1), Status::kLeft);
  EXPECT_EQ(refused_.size(), 1u);
}

// Sharded state without copies: only storage can restore what the leaver has in memory.
TEST_F(WishTest, ANodeLeavesAfterACommitThatIsNewerThanItsNotice) {
  Register(0, 0);
  Register(1, 0);
  Pass(Duration::Seconds(5));
  Commit(40);
  Notice(1, 0, Duration::Seconds(60));
  Pass(Duration::Seconds(5));
  EXPECT_EQ(StatusOf(1), Status::kSeated) << "that checkpoint is older";
  Commit(50);
  Pass(Duration::Seconds(1));
  EXPECT_EQ(StatusOf(1), Status::kLeft);
  EXPECT_NE(told_.find("the checkpoint of step 50 in storage is newer than the notice"),
            std::string::npos)
      << told_;
}

TEST_F(WishTest, ANoticeForANodeThatHasNotComeAsksForAnother) {
  Notice(1, 0, Duration::Seconds(30));
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u);
  Register(1, 1);
  Notice(1, 0, Duration::Seconds(30));
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u) << "an old one";
}

TEST_F(WishTest, ANodeThatDiesUnderNoticeIsNotReplacedTwice) {
  Register(1, 0);
  Register(0, 0);
  Pass(Duration::Seconds(5));
  Notice(1, 0, Duration::Seconds(30));
  Gone(1, 0);
  EXPECT_EQ(StatusOf(1), Status::kLost);
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u);
  Register(1, 0);
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0].code, "PL-E110");
  Register(1, 1);
  EXPECT_EQ(refused_.size(), 1u);
}

TEST_F(WishTest, WhoLeavesIsReplacedAtOnceAndIsNotRefusedItsLastWords) {
  const ConnectionId connection = Register(1, 0);
  Step(NodeLeaving{job_.state().Find("node1")->id, connection, "SIGTERM"});
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u);
  Register(1, 0);
  EXPECT_TRUE(refused_.empty());
  EXPECT_EQ(StatusOf(1), Status::kLeft);
  Register(1, 1);
  EXPECT_EQ(StatusOf(1), Status::kSpare);
}

TEST_F(WishTest, AnOlderIncarnationIsRefused) {
  Register(1, 0);
  Gone(1, 0);
  Register(1, 0);
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0].code, "PL-E110");
  EXPECT_FALSE(refused_[0].retry);
  EXPECT_EQ(StatusOf(1), Status::kLost);
}

TEST_F(WishTest, AnOlderIncarnationThatOnlyWasSilentIsSentAwayWhenItSpeaks) {
  const ConnectionId other = Register(0, 0);
  const ConnectionId connection = Register(1, 0);
  const NodeId id = job_.state().Find("node1")->id;
  for (int i = 0; i < 10'000 && StatusOf(1) != Status::kLost; ++i) {
    Step(NodeReported{.node = job_.state().Find("node0")->id, .connection = other});
  }
  ASSERT_EQ(StatusOf(1), Status::kLost);
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 1u);
  Step(NodeReported{.node = id, .connection = connection, .generation = Generation(9)});
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0].connection, connection);
  EXPECT_EQ(StatusOf(1), Status::kLost);
}

TEST_F(WishTest, NobodyElseIsTakenIn) {
  Register(3, 0);
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0].code, "PL-E110");
  NodeReport stranger = TestReport("laptop");
  Step(NodeRegistered{ConnectionId(99), stranger});
  EXPECT_EQ(refused_.size(), 2u);
  EXPECT_TRUE(job_.state().nodes.empty());
}

TEST_F(WishTest, TheNextIncarnationNeedsNoProofThatTheOneBeforeIsDead) {
  Register(1, 0);
  Register(1, 1);
  EXPECT_TRUE(refused_.empty());
  EXPECT_EQ(StatusOf(1), Status::kSpare);
  // A late report of the platform about an older incarnation has no effect.
  Gone(1, 0);
  EXPECT_EQ(StatusOf(1), Status::kSpare);
}

TEST_F(WishTest, ANextMasterTakesTheAddressOfTheNextIncarnation) {
  RegisterPod(0, 0, "10.0.0.1");
  RegisterPod(1, 0, "10.0.0.2");
  RegisterPod(2, 0, "10.0.0.3");
  Pass(Duration::Seconds(1));
  ASSERT_EQ(StatusOf(0), Status::kSeated);
  Gone(0, 0);  // this loss is in the next master's copy of the journal
  ASSERT_EQ(StatusOf(0), Status::kLost);
  Step(MasterStarted{2});
  RegisterPod(0, 1, "10.0.0.8");
  EXPECT_EQ(StatusOf(0), Status::kSpare);
  EXPECT_EQ(job_.state().Find("node0")->address, "10.0.0.8");
  // And this one is not: the copy has node1 in its seat.
  ASSERT_EQ(StatusOf(1), Status::kSeated);
  RegisterPod(1, 1, "10.0.0.9");
  EXPECT_EQ(StatusOf(1), Status::kSpare);
  EXPECT_EQ(job_.state().Find("node1")->address, "10.0.0.9");
  EXPECT_TRUE(refused_.empty());
}

TEST_F(WishTest, ANodeThatDiesBeforeItCameIsWishedForAnewAFewTimes) {
  for (uint32_t incarnation = 0; incarnation <= kReplacedMax; ++incarnation) {
    EXPECT_EQ(wishes_.back().IncarnationOf(2), incarnation);
    EXPECT_FALSE(wishes_.back().absent.contains(2));
    Gone(2, incarnation);
    Gone(2, incarnation);
  }
  EXPECT_TRUE(wishes_.back().absent.contains(2));
}

TEST_F(WishTest, AMasterThatKnowsNothingWishesBeyondWhatHasDied) {
  Gone(1, 2);
  EXPECT_EQ(wishes_.back().IncarnationOf(1), 3u);
  // A living node that it did not wish for is accepted.
  Register(0, 4);
  EXPECT_TRUE(refused_.empty());
  EXPECT_EQ(wishes_.back().IncarnationOf(0), 4u);
  Gone(0, 4);
  EXPECT_EQ(wishes_.back().IncarnationOf(0), 5u);
}

TEST_F(WishTest, ANewMasterTellsTheSameWish) {
  Register(1, 0);
  Gone(1, 0);
  const Wish before = wishes_.back();
  Step(MasterStarted{2});
  Wish after = wishes_.back();
  EXPECT_GT(after.seq, before.seq);
  after.seq = before.seq;
  EXPECT_EQ(after, before);
}

TEST_F(WishTest, AJobThatEndsWishesForNobody) {
  Register(0, 0);
  Step(StopRequested{.why = "a test"});
  EXPECT_EQ(wishes_.back().intent, Wish::Intent::kDrain);
  Gone(2, 0);
  EXPECT_EQ(wishes_.back().IncarnationOf(2), 0u);
}

TEST(IndexOfNode, IsTheNumberAtTheEnd) {
  EXPECT_EQ(IndexOfNode("node0"), 0u);
  EXPECT_EQ(IndexOfNode("gpu-17"), 17u);
  EXPECT_EQ(IndexOfNode("node"), std::nullopt);
  EXPECT_EQ(IndexOfNode("node01"), std::nullopt);
  EXPECT_EQ(IndexOfNode("node1234567"), std::nullopt);
}

}  // namespace
}  // namespace paceline::core
