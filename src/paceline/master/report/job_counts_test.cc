#include "paceline/master/report/job_counts.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/master/report/status.h"
#include "paceline/model/test_report.h"

namespace paceline::master {
namespace {

Instant CountsAt(int64_t milliseconds) { return Instant() + Duration::Milliseconds(milliseconds); }

// The slow, obvious twin: counts what the whole status says.
StateCounts CountedFrom(const wire::JobStatus& status) {
  StateCounts counts;
  for (const wire::NodeStatus& node : status.nodes) {
    for (size_t i = 0; i < counts.nodes.size(); ++i) {
      const auto state = static_cast<core::NodeState::Status>(i);
      if (core::NodeStatusName(state) == node.state) ++counts.nodes[i];
    }
    if (node.state == "spare" && node.connected) ++counts.spares_connected;
    for (const wire::RankStatus& rank : node.ranks) {
      for (size_t i = 0; i < counts.ranks.size(); ++i) {
        if (RankStateName(static_cast<RankReport::State>(i)) == rank.state) ++counts.ranks[i];
      }
    }
  }
  counts.steps_total = status.steps_total;
  return counts;
}

class JobCountsTest : public testing::Test {
 protected:
  void Step(int64_t at, const core::Event& event) {
    const core::Actions actions = job_.Step(CountsAt(at), event);
    counts_.Note(job_, event, !actions.records.empty());
  }
  // Both ways say the same after each event, and whoever read them before.
  void Check(int64_t at) {
    const StateCounts whole = CountedFrom(MakeJobStatus(job_, CountsAt(at), {}));
    const StateCounts kept = counts_.Of(job_);
    EXPECT_EQ(kept.nodes, whole.nodes) << at;
    EXPECT_EQ(kept.spares_connected, whole.spares_connected) << at;
    EXPECT_EQ(kept.ranks, whole.ranks) << at;
    EXPECT_EQ(kept.steps_total, whole.steps_total) << at;
  }

  core::Job job_;
  JobCounts counts_;
};

// A job of eight nodes to whom all kinds of events happen in any order.
TEST_F(JobCountsTest, AreThoseOfTheWholeStatus) {
  constexpr uint64_t kNodes = 10;
  Prng prng(17);
  Step(1, core::JobSubmitted{{.job_id = "j", .nodes_min = 4, .nodes_max = 8}});
  Step(1, core::MasterStarted{1});
  std::vector<uint64_t> connections(kNodes, 0);
  uint64_t last_connection = 0;
  uint64_t registered = 0;
  uint64_t stepping = 0;
  for (int64_t at = 2; at < 6000; ++at) {
    const uint64_t node = prng.Below(kNodes);
    const uint64_t what = prng.Below(20);
    const std::string name = "node" + std::to_string(node);
    const core::NodeState* known = job_.state().Find(name);
    const NodeId id = known == nullptr ? NodeId() : known->id;
    const ConnectionId connection(connections[node]);
    const Generation generation = job_.state().generation;
    RankReport rank{.generation = generation, .pid = 7};
    rank.state = static_cast<RankReport::State>(prng.Below(3));
    rank.step_count = rank.state == RankReport::State::kStepping ? 1 + at : 0;
    rank.steps_total = 1000;
    const bool is_seated = known != nullptr && job_.state().IsSeated(id);
    if (is_seated) rank.rank = Rank(job_.state().SeatOf(*known).first_rank);
    if (what == 0 || connections[node] == 0) {
      connections[node] = ++last_connection;
      Step(at, core::NodeRegistered{ConnectionId(last_connection), TestReport(name)});
      ++registered;
    } else if (what == 1) {
      Step(at, core::NodeDisconnected{id, connection});
      connections[node] = 0;
    } else if (what == 2 && prng.Below(8) == 0 && is_seated) {
      rank.state = RankReport::State::kExited;
      rank.exit = {.kind = ExitCause::Kind::kSignaled, .code = 9};
      Step(at, core::RankExited{id, connection, rank});
    } else if (what == 3) {
      Step(at, core::TimePassed{});
    } else {
      core::NodeReported report{.node = id, .connection = connection, .generation = generation};
      report.store_port = static_cast<uint32_t>(20'000 + node);
      if (is_seated) report.ranks = {rank};
      Step(at, report);
    }
    if (prng.Below(3) == 0) Check(at);
    stepping += counts_.Of(job_).In(RankReport::State::kStepping);
  }
  EXPECT_GT(registered, kNodes);
  EXPECT_GT(stepping, 0u);
}

}  // namespace
}  // namespace paceline::master
