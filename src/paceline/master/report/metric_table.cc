// The rows of the metrics, in the order of the output and of docs/metrics.md.

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "paceline/core/goodput/time_class.h"
#include "paceline/master/report/metrics.h"
#include "paceline/master/report/status.h"

namespace paceline::master {
namespace {

using Source = MetricSource;
using Of = std::string_view;  // the value of the label
using enum MetricType;

double NodesIn(const Source& source, Of state) {
  for (size_t i = 0; i < source.counts.nodes.size(); ++i) {
    const auto status = static_cast<core::NodeState::Status>(i);
    if (core::NodeStatusName(status) == state) {
      return static_cast<double>(source.counts.In(status));
    }
  }
  return 0;
}

double RanksIn(const Source& source, Of state) {
  for (size_t i = 0; i < source.counts.ranks.size(); ++i) {
    const auto of = static_cast<RankReport::State>(i);
    if (RankStateName(of) == state) return static_cast<double>(source.counts.In(of));
  }
  return 0;
}

double RankSecondsOf(const Source& source, Of name) {
  for (const core::TimeClassText& text : core::TimeClassTexts()) {
    if (text.name == name) return source.goodput.Of(text.time_class);
  }
  return 0;
}

double SlowRanks(const Source& source, Of) {
  size_t count = 0;
  for (const wire::SlowStatus& one : source.status.slow) count += one.ranks.size();
  return static_cast<double>(count);
}

double SlowCost(const Source& source, Of) {
  double cost = 0;
  for (const wire::SlowStatus& one : source.status.slow) cost = std::max(cost, one.cost);
  return cost;
}

// The rank in a place among the slow ones, from 1, and its finding; none: {-1, nullptr}.
std::pair<int64_t, const wire::SlowStatus*> SlowAt(const Source& source, Of slot) {
  size_t left = static_cast<size_t>(slot.front() - '1');
  for (const wire::SlowStatus& one : source.status.slow) {
    if (left < one.ranks.size()) return {one.ranks[left], &one};
    left -= one.ranks.size();
  }
  return {-1, nullptr};
}

double SlowExcess(const Source& source, Of slot) {
  const wire::SlowStatus* finding = SlowAt(source, slot).second;
  return finding == nullptr ? 0 : finding->excess;
}

double Seconds(Instant at) { return static_cast<double>(at.nanoseconds()) / 1e9; }

template <class Number>
double Real(Number number) {
  return static_cast<double>(number);
}

constexpr MetricRow kOfJob[] = {
    {.name = "phase",
     .label = "phase",
     .values = "waiting|starting|running|stopping|finished",
     .help = "1 for the phase that the job is in",
     .value = [](const Source& s, Of of) { return s.status.phase == of ? 1.0 : 0.0; }},
    {.name = "generation",
     .help = "generation of the current world; 0 between worlds",
     .value = [](const Source& s, Of) { return Real(s.status.generation); }},
    {.name = "world_ranks",
     .help = "ranks of the current world",
     .value = [](const Source& s, Of) { return Real(s.status.world_size); }},
    {.name = "step",
     .help = "highest known step, absolute if the script reports it, else counted; -1 before the "
             "first",
     .value = [](const Source& s, Of) { return Real(s.status.step); }},
    {.name = "last_step_timestamp_seconds",
     .help = "when the last step was made that this master has heard of; before that, its own "
             "start",
     .value = [](const Source& s, Of) { return Seconds(s.last_step_at); }},
    {.name = "steps_per_second",
     .help = "steps a second of the last minute; 0 if not known",
     .value = [](const Source& s, Of) { return s.status.steps_per_second; }},
    {.name = "goodput_ratio",
     .help = "share of the seated ranks' time since the first world was formed in which steps were "
             "made that no later attempt repeated; redone steps, detection, restarts, evaluation "
             "and waiting for data, saves and stragglers do not count",
     .value = [](const Source& s, Of) { return s.status.goodput; }},
    {.name = "mfu_ratio",
     .help = "model FLOPs utilization since the first world was formed: the model's arithmetic of "
             "the steps that count, of what the seated ranks' devices could do at their peak; a "
             "minute behind; 0 if not known, as without a plan",
     .value = [](const Source& s, Of) { return s.goodput.mfu.ratio.value_or(0); }},
    {.name = "rank_seconds",
     .label = "class",
     .values =
         "productive|evaluation|unproductive_checkpoint_save|data_loading_sync|straggler_wait|"
         "wasted_progress|detection|hang|decision|waiting_for_nodes|program_startup|"
         "infrastructure_recovery|unproductive_checkpoint_restore|compilation|stopping|spare|"
         "unknown",
     .help = "time of all ranks' places by class, as in `paceline goodput`; a class may lose time "
             "to another one when a failure shows that steps are lost",
     .value = RankSecondsOf},
    {.name = "restarts",
     .type = kCounter,
     .help = "worlds formed after the first",
     .value = [](const Source& s, Of) { return Real(s.status.restart_count); }},
    {.name = "failures",
     .type = kCounter,
     .help = "failures charged to the restart budget",
     .value = [](const Source& s, Of) { return Real(s.status.failures); }},
    {.name = "hang_open",
     .help = "1 while a hang lasts about which nothing has been done",
     .value = [](const Source& s, Of) { return s.status.hang.has_value() ? 1.0 : 0.0; }},
    {.name = "nodes",
     .label = "state",
     .values = "evicted|left|lost|seated|spare",
     .help = "nodes by state",
     .value = NodesIn},
    {.name = "ranks",
     .label = "state",
     .values = "exited|running|starting|stepping",
     .help = "ranks by state",
     .value = RanksIn},
    {.name = "slow_ranks",
     .help = "ranks whose own work takes longer than their peers'",
     .value = SlowRanks},
    {.name = "slow_cost_ratio",
     .help = "share of the speed that the slowest of them costs",
     .value = SlowCost},
    {.name = "slow_rank",
     .is_told = false,
     .label = "slot",
     .values = "1|2|3|4|5|6|7|8",
     .help = "number of a slow rank, the first 8 of `paceline status`; -1 for none",
     .value = [](const Source& s, Of of) { return Real(SlowAt(s, of).first); }},
    {.name = "slow_rank_excess_ratio",
     .is_told = false,
     .label = "slot",
     .values = "1|2|3|4|5|6|7|8",
     .help = "by how much its own work takes longer than its peers'; 0 for none",
     .value = SlowExcess},
};

constexpr MetricRow kOfCheckpoints[] = {
    {.name = "checkpoint_memory_step",
     .help = "newest step that every rank of the world has in memory; -1 for none",
     .value = [](const Source& s, Of) { return Real(s.status.checkpoints.memory_step); }},
    {.name = "checkpoint_storage_step",
     .help = "newest step whose checkpoint is complete in storage; -1 for none",
     .value = [](const Source& s, Of) { return Real(s.status.checkpoints.storage_step); }},
    {.name = "checkpoint_storage_timestamp_seconds",
     .help = "when it was complete; 0 for none",
     .value = [](const Source& s, Of) { return Seconds(s.stored_at); }},
    {.name = "checkpoint_storage_bytes",
     .help = "size of the newest checkpoint in storage",
     .value = [](const Source& s, Of) { return Real(s.status.checkpoints.storage_bytes); }},
    {.name = "checkpoint_writing",
     .help = "1 while a checkpoint is on its way to storage",
     .value = [](const Source& s,
                 Of) { return s.status.checkpoints.writing_step >= 0 ? 1.0 : 0.0; }},
    {.name = "checkpoint_ok",
     .help = "0 if the last step that was due did not reach storage",
     .value = [](const Source& s, Of) { return s.status.checkpoints.problem.empty() ? 1.0 : 0.0; }},
    {.name = "checkpoint_commits",
     .type = kCounter,
     .help = "checkpoints that reached storage, over the whole job",
     .value = [](const Source& s, Of) { return Real(s.status.checkpoints.commits); }},
    {.name = "checkpoint_restored_step",
     .help = "step after which the newest world went on; -1 if it began anew",
     .value = [](const Source& s, Of) { return Real(s.status.checkpoints.restored_step); }},
    {.name = "checkpoint_restores",
     .type = kCounter,
     .label = "from",
     .values = "memory|storage",
     .help = "worlds that went on from memory (of any host) or storage",
     .value =
         [](const Source& s, Of of) {
           const wire::CheckpointStatus& status = s.status.checkpoints;
           return Real(of == "memory" ? status.memory_restores : status.storage_restores);
         }},
};

constexpr MetricRow kOfMaster[] = {
    {.name = "agents_connected",
     .is_told = false,
     .help = "agents with an admitted stream",
     .value = [](const Source& s, Of) { return Real(s.counters.agents_connected); }},
    {.name = "journal_ok",
     .is_told = false,
     .help = "0 while the journal cannot be written and decisions wait",
     .value = [](const Source& s, Of) { return s.status.journal == "ok" ? 1.0 : 0.0; }},
    {.name = "effects_waiting",
     .is_told = false,
     .help = "effects whose records are not yet durable",
     .value = [](const Source& s, Of) { return Real(s.counters.effects_waiting); }},
    {.name = "journal_failures",
     .type = kCounter,
     .is_told = false,
     .help = "commits that the disk refused, since this master started",
     .value = [](const Source& s, Of) { return Real(s.counters.journal_failures); }},
    {.name = "records",
     .type = kCounter,
     .is_told = false,
     .help = "records decided since this master started",
     .value = [](const Source& s, Of) { return Real(s.counters.records); }},
    {.name = "events",
     .type = kCounter,
     .is_told = false,
     .help = "events that the loop has handled since this master started",
     .value = [](const Source& s, Of) { return Real(s.counters.events); }},
    {.name = "heartbeats",
     .type = kCounter,
     .is_told = false,
     .help = "heartbeats heard since this master started",
     .value = [](const Source& s, Of) { return Real(s.counters.heartbeats); }},
    {.name = "effects",
     .type = kCounter,
     .is_told = false,
     .help = "effects decided since this master started",
     .value = [](const Source& s, Of) { return Real(s.counters.effects); }},
    {.name = "decision_seconds",
     .type = kCounter,
     .is_told = false,
     .help = "time spent in `Job::Step` since this master started",
     .value = [](const Source& s, Of) { return s.counters.step_time.ToSecondsF(); }},
    {.name = "decision_seconds_max",
     .is_told = false,
     .help = "longest single decision of this master",
     .value = [](const Source& s, Of) { return s.counters.step_time_max.ToSecondsF(); }},
    {.name = "notices",
     .type = kCounter,
     .is_told = false,
     .label = "result",
     .values = "done|failed|dropped",
     .help = "runs of the command of [notify], and notices that it never got, since this master "
             "started",
     .value =
         [](const Source& s, Of of) {
           return Real(of == "done"     ? s.notices.done
                       : of == "failed" ? s.notices.failed
                                        : s.notices.dropped);
         }},
};

std::vector<MetricRow> AllMetrics() {
  std::vector<MetricRow> all(std::begin(kOfJob), std::end(kOfJob));
  all.insert(all.end(), std::begin(kOfCheckpoints), std::end(kOfCheckpoints));
  all.insert(all.end(), std::begin(kOfMaster), std::end(kOfMaster));
  return all;
}

}  // namespace

std::span<const MetricRow> MetricTable() {
  static const auto* const kAll = new std::vector<MetricRow>(AllMetrics());
  return *kAll;
}

}  // namespace paceline::master
