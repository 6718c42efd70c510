// Links between hosts: all pairs are tested before the first world, a bad host is taken out, a bad
// link is told, and a host that comes later is tested with those that are there.

#include "paceline/core/world/pair_tests.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/text.h"
#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

using State = NodeCheck::State;

// What the test from one host to another finds. None: no answer.
using Outcome = std::function<std::optional<LinkTested>(uint32_t from, uint32_t to)>;

class PairTestsTest : public ::testing::Test {
 protected:
  void Begin(uint32_t nodes_min, uint32_t nodes_max, uint32_t spares = 0) {
    JobSpec spec;
    spec.job_id = "pairs";
    spec.nodes_min = nodes_min;
    spec.nodes_max = nodes_max;
    spec.spares = spares;
    Step(JobSubmitted{spec});
    Step(MasterStarted{1});
  }
  void Step(const Event& event) {
    const Actions actions = job_.Step(now_, event);
    for (const Record& record : actions.records) records_.push_back(record);
    for (const Effect& effect : actions.effects) {
      if (const auto* test = std::get_if<TestLink>(&effect)) orders_.push_back(*test);
    }
  }
  static std::string Name(uint32_t node) { return Concat("n", node); }
  // Each host has an address of its own, unless the test says otherwise.
  void Register(uint32_t node, uint64_t agent = 1, uint64_t connection = 0) {
    connections_[node] = connection == 0 ? node : connection;
    NodeReport report = TestReport(Name(node));
    report.store_port = 30'000 + node;
    report.agent_incarnation = agent;
    report.address = has_one_host_ ? "10.0.0.1" : Concat("10.0.0.", node);
    report.check = {.state = State::kPassed};
    report.bulk = Concat(report.address, ":", 40'000 + node);
    Step(NodeRegistered{ConnectionId(connections_[node]), report});
  }
  void RegisterAll(uint32_t count) {
    for (uint32_t node = 1; node <= count; ++node) Register(node);
  }
  // Hosts carry out the orders. Returns how many there were.
  size_t Answer(const Outcome& outcome) {
    size_t answered = 0;
    for (const TestLink& order : std::exchange(orders_, {})) {
      ++answered;
      const auto peer = static_cast<uint32_t>(std::stoul(order.order.peer.substr(1)));
      std::optional<LinkTested> tested = outcome(order.node.value(), peer);
      if (!tested.has_value()) continue;
      tested->round = order.order.round;
      tested->peer = order.order.peer;
      Step(LinkTestEnded{order.node, ConnectionId(connections_[order.node.value()]), *tested});
    }
    return answered;
  }
  void AnswerAll(const Outcome& outcome) {
    while (Answer(outcome) > 0) {
    }
  }
  void Pass(Duration time) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ += Duration::Milliseconds(100);
      for (const auto& [id, node] : job_.state().nodes) {
        if (silent_.contains(id.value())) continue;
        Step(NodeReported{.node = id,
                          .connection = ConnectionId(connections_[id.value()]),
                          .generation = job_.state().generation,
                          .store_port = 30'000 + id.value()});
      }
    }
  }
  static std::optional<LinkTested> Good(uint32_t, uint32_t) {
    return LinkTested{.round = 0, .peer = "", .gb_s = 1.0, .problem = ""};
  }
  static std::optional<LinkTested> Refused() {
    return LinkTested{.round = 0, .peer = "", .gb_s = 0, .problem = "Connection refused"};
  }
  // No other host reaches this one.
  static Outcome DeadPort(uint32_t bad) {
    return [bad](uint32_t from, uint32_t to) { return to == bad ? Refused() : Good(from, to); };
  }
  static Outcome DeadLink(uint32_t a, uint32_t b) {
    return [a, b](uint32_t from, uint32_t to) {
      const bool is_it = (from == a && to == b) || (from == b && to == a);
      return is_it ? Refused() : Good(from, to);
    };
  }
  template <class What>
  std::vector<What> All() const {
    std::vector<What> found;
    for (const Record& record : records_) {
      if (const auto* fact = std::get_if<What>(&record.fact)) found.push_back(*fact);
    }
    return found;
  }
  std::set<std::string> Seated() const {
    std::set<std::string> names;
    if (!job_.state().world.has_value()) return names;
    for (const Seat& seat : job_.state().world->seats) names.insert(job_.state().NameOf(seat.node));
    return names;
  }
  NodeState::Status StatusOf(uint32_t node) const {
    return job_.state().Find(NodeId(node))->status;
  }

  Job job_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
  std::vector<Record> records_;
  std::vector<TestLink> orders_;
  std::map<uint32_t, uint64_t> connections_;
  std::set<uint32_t> silent_;
  bool has_one_host_ = false;
};

TEST_F(PairTestsTest, AllPairsAreTestedBothWaysBeforeTheFirstWorld) {
  Begin(4, 4);
  RegisterAll(4);
  EXPECT_EQ("tests the links between its nodes", job_.Pending());
  std::set<std::pair<uint32_t, std::string>> tried;
  while (!orders_.empty()) {
    EXPECT_TRUE(Seated().empty());
    std::set<uint32_t> in_round;
    for (const TestLink& order : orders_) {
      EXPECT_TRUE(tried.insert({order.node.value(), order.order.peer}).second);
      EXPECT_TRUE(in_round.insert(order.node.value()).second) << "two tests of a host at once";
      EXPECT_EQ(Concat("10.0.0.", order.order.peer.substr(1), ":4000", order.order.peer.substr(1)),
                order.order.address);
    }
    Answer(Good);
  }
  EXPECT_EQ(12u, tried.size());
  EXPECT_EQ((std::set<std::string>{"n1", "n2", "n3", "n4"}), Seated());
  ASSERT_EQ(1u, All<PairsJudged>().size());
  const PairsJudged judged = All<PairsJudged>().front();
  EXPECT_EQ(4u, judged.nodes);
  EXPECT_EQ(6u, judged.pairs);
  EXPECT_EQ(1.0, judged.slowest);
  EXPECT_FALSE(judged.HasTold());
  EXPECT_TRUE(job_.state().links.empty());
}

TEST_F(PairTestsTest, AHostThatNoOneReachesIsTakenOutAndASpareTakesItsSeat) {
  Begin(3, 3, 1);
  RegisterAll(4);
  AnswerAll(DeadPort(2));
  EXPECT_EQ((std::set<std::string>{"n1", "n3", "n4"}), Seated());
  EXPECT_EQ(NodeState::Status::kEvicted, StatusOf(2));
  // The first three, then the spare.
  ASSERT_EQ(2u, All<PairsJudged>().size());
  EXPECT_EQ((std::vector<std::string>{"n2"}), All<PairsJudged>().front().bad);
  const std::string& reason = job_.state().Find(NodeId(2))->reason;
  EXPECT_NE(std::string::npos, reason.find("failed its checks: links: its tests with n1, n3 "
                                           "failed: n1 fetches nothing from n2: Connection"))
      << reason;
  EXPECT_TRUE(job_.state().links.empty());
}

TEST_F(PairTestsTest, TheJobStartsWithTheRestIfTheMinimumAllows) {
  Begin(2, 3);
  RegisterAll(3);
  AnswerAll(DeadPort(3));
  EXPECT_EQ(NodeState::Status::kEvicted, StatusOf(3));
  Pass(job_.state().spec.timers.join_window + Duration::Seconds(1));
  EXPECT_EQ((std::set<std::string>{"n1", "n2"}), Seated());
}

TEST_F(PairTestsTest, BelowTheMinimumTheJobWaitsAndSaysWhy) {
  Begin(3, 3);
  RegisterAll(3);
  AnswerAll(DeadPort(3));
  EXPECT_TRUE(Seated().empty());
  EXPECT_NE(std::string::npos, job_.Pending().find("n3 failed its checks: links: "))
      << job_.Pending();
  // The host is repaired, and typed again: another agent.
  Step(NodeDisconnected{NodeId(3), ConnectionId(3)});
  Register(3, 2, 33);
  AnswerAll(Good);
  EXPECT_EQ((std::set<std::string>{"n1", "n2", "n3"}), Seated());
}

TEST_F(PairTestsTest, ALinkBetweenGoodHostsIsOnlyTold) {
  Begin(4, 4);
  RegisterAll(4);
  AnswerAll(DeadLink(1, 3));
  EXPECT_EQ(4u, Seated().size());
  const PairsJudged judged = All<PairsJudged>().front();
  EXPECT_TRUE(judged.bad.empty());
  ASSERT_EQ(1u, judged.bad_links.size());
  EXPECT_EQ("n1", judged.bad_links.front().a);
  EXPECT_EQ("n3", judged.bad_links.front().b);
  ASSERT_EQ(1u, job_.state().links.size());
}

TEST_F(PairTestsTest, OfTwoHostsNoneIsTakenOut) {
  Begin(2, 2);
  RegisterAll(2);
  AnswerAll(DeadPort(2));
  EXPECT_EQ(2u, Seated().size());
  const PairsJudged judged = All<PairsJudged>().front();
  EXPECT_TRUE(judged.bad.empty() && judged.bad_links.empty());
  EXPECT_EQ(1u, judged.doubtful.size());
}

TEST_F(PairTestsTest, OneFailureDoesNotCount) {
  Begin(4, 4);
  RegisterAll(4);
  std::map<std::pair<uint32_t, uint32_t>, int> times;
  AnswerAll([&times](uint32_t from, uint32_t to) {
    const bool is_first = ++times[{from, to}] == 1;
    return to == 2 && is_first ? Refused() : Good(from, to);
  });
  EXPECT_EQ(4u, Seated().size());
  EXPECT_FALSE(All<PairsJudged>().front().HasTold());
}

TEST_F(PairTestsTest, AHostWithASlowLinkIsTakenOut) {
  Begin(3, 4);
  RegisterAll(4);
  AnswerAll([](uint32_t from, uint32_t to) {
    std::optional<LinkTested> tested = Good(from, to);
    if (from == 4 || to == 4) tested->gb_s = 0.1;
    return tested;
  });
  EXPECT_EQ(NodeState::Status::kEvicted, StatusOf(4));
  const std::string& reason = job_.state().Find(NodeId(4))->reason;
  EXPECT_NE(std::string::npos, reason.find("0.10 GB/s, less than half of")) << reason;
}

TEST_F(PairTestsTest, SpeedsWithinOneHostAreNotCompared) {
  has_one_host_ = true;
  Begin(4, 4);
  RegisterAll(4);
  AnswerAll([](uint32_t from, uint32_t to) {
    std::optional<LinkTested> tested = Good(from, to);
    if (from == 4 || to == 4) tested->gb_s = 0.1;
    return tested;
  });
  EXPECT_EQ(4u, Seated().size());
  EXPECT_EQ(0, All<PairsJudged>().front().slowest);
}

TEST_F(PairTestsTest, ALaterHostIsTestedWithFewOthersBeforeItIsACandidate) {
  Begin(2, 4);
  RegisterAll(2);
  Pass(job_.state().spec.timers.join_window + Duration::Seconds(1));
  AnswerAll(Good);
  ASSERT_EQ(2u, Seated().size());
  records_.clear();
  Register(3);
  EXPECT_TRUE(All<GrowthPlanned>().empty() && All<RecoveryDecided>().empty());
  size_t asked = 0;
  while (!orders_.empty()) {
    for (const TestLink& order : orders_) {
      EXPECT_TRUE(order.node == NodeId(3) || order.order.peer == "n3");
      EXPECT_EQ(1u, order.order.chunks) << "the others train";
      ++asked;
    }
    Answer(Good);
  }
  EXPECT_EQ(2u, asked);  // both ways; the other host is asked only if this pair fails
  ASSERT_EQ(1u, All<PairsJudged>().size());
  EXPECT_FALSE(All<GrowthPlanned>().empty() && All<RecoveryDecided>().empty());
}

TEST_F(PairTestsTest, ALaterHostThatNoOneReachesIsTakenOutAndTheWorldStays) {
  Begin(2, 3);
  RegisterAll(2);
  Pass(job_.state().spec.timers.join_window + Duration::Seconds(1));
  AnswerAll(Good);
  ASSERT_EQ(2u, Seated().size());
  const Generation before = job_.state().world->generation;
  Register(3);
  AnswerAll(DeadPort(3));
  EXPECT_EQ(NodeState::Status::kEvicted, StatusOf(3));
  EXPECT_EQ(before, job_.state().world->generation);
}

TEST_F(PairTestsTest, AHostThatIsLostEndsItsTestsAndIsTestedWhenItIsBack) {
  Begin(3, 3);
  RegisterAll(3);
  silent_.insert(2);
  Step(NodeDisconnected{NodeId(2), ConnectionId(2)});
  AnswerAll(Good);
  EXPECT_TRUE(Seated().empty());
  for (const PairsJudged& judged : All<PairsJudged>()) EXPECT_FALSE(judged.HasTold());
  silent_.clear();
  Register(2, 1, 22);
  EXPECT_FALSE(orders_.empty());
  AnswerAll(Good);
  EXPECT_EQ(3u, Seated().size());
  EXPECT_EQ(NodeState::Status::kSeated, StatusOf(2));
}

TEST_F(PairTestsTest, WithoutAnswersTheJobStartsAfterHalfAMinute) {
  Begin(6, 6);  // five rounds
  RegisterAll(6);
  Pass(Duration::Seconds(29));
  EXPECT_TRUE(Seated().empty());
  Pass(Duration::Seconds(2));
  EXPECT_EQ(6u, Seated().size());
  ASSERT_EQ(1u, All<PairsJudged>().size());
  EXPECT_EQ(6u, All<PairsJudged>().front().missed.size());
}

TEST_F(PairTestsTest, AnAnswerOfAnotherRoundDoesNotCount) {
  Begin(2, 2);
  RegisterAll(2);
  const TestLink order = orders_.front();
  LinkTested old = *Refused();
  old.round = order.order.round - 1;
  old.peer = order.order.peer;
  for (const uint32_t node : {1U, 2U}) {
    Step(LinkTestEnded{NodeId(node), ConnectionId(node), old});
  }
  AnswerAll(Good);
  EXPECT_FALSE(All<PairsJudged>().front().HasTold());
}

TEST_F(PairTestsTest, ANewMasterTestsHostsWithoutRanksAgain) {
  Begin(3, 3);
  RegisterAll(3);
  Answer(Good);
  Job next;
  for (const Record& record : records_) next.Restore(record);
  job_ = std::move(next);
  orders_.clear();
  Step(MasterStarted{2});
  RegisterAll(3);
  EXPECT_FALSE(orders_.empty());
  AnswerAll(Good);
  EXPECT_EQ(3u, Seated().size());
}

TEST_F(PairTestsTest, AHostThatComesBackUnderANameHasNoOldLinks) {
  Begin(4, 4);
  RegisterAll(4);
  AnswerAll(DeadLink(1, 2));
  ASSERT_EQ(1u, job_.state().links.size());
  Step(NodeGone{.name = "n2", .evidence = "is gone", .agent_pid = 0, .incarnation = {}});
  Step(NodeDisconnected{NodeId(2), ConnectionId(2)});
  silent_.insert(2);
  Pass(Duration::Seconds(40));
  Register(2, 2, 22);
  EXPECT_TRUE(job_.state().links.empty());
}

TEST_F(PairTestsTest, AJobOfOneNodeTestsNothing) {
  Begin(1, 1);
  Register(1);
  EXPECT_TRUE(orders_.empty());
  EXPECT_EQ(1u, Seated().size());
  EXPECT_TRUE(All<PairsJudged>().empty());
}

}  // namespace
}  // namespace paceline::core
