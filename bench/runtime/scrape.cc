// What the loop of the master pays for a scrape of a job of 10,000 ranks on 1,250 nodes: with the
// whole status, as `paceline status` gets it, and with the counts that are kept by events.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cpu_seconds.h"
#include "paceline/core/goodput/ledger.h"
#include "paceline/master/report/job_counts.h"
#include "paceline/master/report/metrics.h"
#include "paceline/master/report/status.h"
#include "paceline/model/test_report.h"

namespace paceline::master {
namespace {

constexpr uint32_t kNodes = 1250;
constexpr uint32_t kRanksPerNode = 8;
constexpr int kScrapes = 200;

// A job whose ranks have all made steps.
class MadeJob {
 public:
  MadeJob() {
    JobSpec spec{.job_id = "j", .nodes_min = kNodes, .nodes_max = kNodes};
    spec.nproc_per_node = kRanksPerNode;
    Step(core::JobSubmitted{spec});
    Step(core::MasterStarted{1});
    for (uint32_t i = 1; i <= kNodes; ++i) {
      NodeReport report = TestReport("node" + std::to_string(i));
      report.slots = kRanksPerNode;
      Step(core::NodeRegistered{ConnectionId(i), report});
    }
    for (uint32_t i = 1; i <= kNodes; ++i) Report(NodeId(i), 50);
  }

  void Report(NodeId node, int64_t step_count) {
    const core::JobState& state = job_.state();
    core::NodeReported report{.node = node,
                              .connection = ConnectionId(node.value()),
                              .generation = state.generation,
                              .store_port = 20'001};
    const uint32_t first = state.SeatOf(*state.Find(node)).first_rank;
    for (uint32_t i = 0; i < kRanksPerNode; ++i) {
      RankReport rank{.generation = state.generation, .rank = Rank(first + i), .local_rank = i};
      rank.pid = 7;
      rank.state = RankReport::State::kStepping;
      rank.step_count = step_count;
      report.ranks.push_back(rank);
    }
    Step(report);
  }

  double WithWholeStatus() {
    return MillisecondsOf([this] {
      const wire::JobStatus status =
          MakeJobStatus(job_, At(), {.goodput = ledger_.At(At()).runtime});
      return MetricsText(
          {.status = status, .counts = counts_.Of(job_), .goodput = ledger_.At(At())});
    });
  }
  double WithCounts() {
    return MillisecondsOf([this] {
      const wire::JobStatus status =
          MakeJobBrief(job_, At(), {.goodput = ledger_.At(At()).runtime});
      return MetricsText(
          {.status = status, .counts = counts_.Of(job_), .goodput = ledger_.At(At())});
    });
  }

 private:
  static Instant At() { return Instant() + Duration::Seconds(100); }
  void Step(const core::Event& event) {
    const core::Actions actions = job_.Step(At(), event);
    for (const core::Record& record : actions.records) ledger_.Fold(record);
    counts_.Note(job_, event, !actions.records.empty());
  }
  template <class Scrape>
  static double MillisecondsOf(Scrape scrape) {
    size_t bytes = 0;
    const double before = bench::OwnCpuSeconds();
    for (int i = 0; i < kScrapes; ++i) bytes += scrape().size();
    if (bytes == 0) std::abort();
    return (bench::OwnCpuSeconds() - before) * 1000 / kScrapes;
  }

  core::Job job_;
  core::GoodputLedger ledger_;
  JobCounts counts_;
};

}  // namespace
}  // namespace paceline::master

int main() {
  paceline::master::MadeJob job;
  std::printf("{\"ranks\": %u, \"whole_status_ms\": %.3f, \"counts_ms\": %.3f}\n",
              paceline::master::kNodes * paceline::master::kRanksPerNode, job.WithWholeStatus(),
              job.WithCounts());
  return 0;
}
