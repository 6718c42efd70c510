#include "paceline/master/report/event_row.h"

#include <array>
#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/base/number_text.h"
#include "paceline/base/text.h"
#include "paceline/model/role_name.h"

namespace paceline::master {
namespace {

using wire::JobEvent;

std::string YesNo(bool value) { return value ? "true" : "false"; }

std::string_view KindName(ExitCause::Kind kind) {
  switch (kind) {
    case ExitCause::Kind::kExited: return "exited";
    case ExitCause::Kind::kSignaled: return "signaled";
    case ExitCause::Kind::kUnknown: return "unknown";
    case ExitCause::Kind::kNotStarted: return "not_started";
    case ExitCause::Kind::kHung: return "hung";
  }
  return "unknown";
}

std::string LinkLines(const std::vector<core::PairsJudged::Link>& links) {
  std::string text;
  for (const auto& link : links) {
    text += Concat(text.empty() ? "" : "\n", link.a, " and ", link.b, ": ", link.problem);
  }
  return text;
}

// Adds the details of a kind of fact to its sentence.
struct Filler {
  JobEvent& event;
  const NodeNames& names;

  void Detail(const char* key, std::string value) { event.details[key] = std::move(value); }
  void Step(int64_t step) {
    if (step >= 0) event.step = step;
  }

  void operator()(const core::JobCreated& fact) {
    Detail("job_id", fact.spec.job_id);
    Detail("nodes_min", std::to_string(fact.spec.nodes_min));
    Detail("nodes_max", std::to_string(fact.spec.nodes_max));
    Detail("nproc_per_node", std::to_string(fact.spec.nproc_per_node));
    Detail("spares", std::to_string(fact.spec.spares));
  }
  void operator()(const core::MasterTookOver& fact) {
    Detail("incarnation", std::to_string(fact.incarnation));
    if (fact.term == 0) return;
    constexpr std::string_view kFrom[] = {"its own journal", "a copy", "nothing"};
    Detail("term", std::to_string(fact.term));
    Detail("history", std::string(kFrom[static_cast<size_t>(fact.history)]));
  }
  void operator()(const core::NodeJoined& fact) {
    event.node = fact.name;
    Detail("address", fact.address);
    Detail("boot_id", fact.boot_id);
    Detail("slots", std::to_string(fact.slots));
    Detail("returned", YesNo(fact.returned));
  }
  void operator()(const core::NodeLost& fact) {
    event.node = names.Of(fact.node);
    Detail("silent_ms", std::to_string(fact.silent_for.milliseconds()));
    Detail("finished", YesNo(fact.finished));
    Detail("explains", YesNo(fact.explains));
    Detail("reason", fact.reason);
  }
  void operator()(const core::PastRemembered& fact) {
    Detail("charged_failures", std::to_string(fact.memo.charged_failures));
    Detail("failures_without_progress", std::to_string(fact.memo.failures_without_progress));
  }
  void operator()(const core::NodeNoticed& fact) {
    event.node = names.Of(fact.node);
    Detail("leave_by_ns", std::to_string(fact.leave_by.nanoseconds()));
    Detail("reason", fact.reason);
  }
  void operator()(const core::AgentReturned& fact) {
    event.node = names.Of(fact.node);
    Detail("ranks", std::to_string(fact.ranks));
  }
  void operator()(const core::NodeLeft& fact) {
    event.node = names.Of(fact.node);
    Detail("reason", fact.reason);
  }
  void operator()(const core::NodeChecked& fact) {
    event.node = names.Of(fact.node);
    Detail("ok", YesNo(fact.ok));
    Detail("reason", fact.reason);
    if (!fact.numbers.empty()) Detail("numbers", fact.numbers);
  }
  void operator()(const core::NodeEvicted& fact) {
    event.node = names.Of(fact.node);
    Detail("reason", fact.reason);
    if (!fact.host.empty()) Detail("excluded_host", fact.host);
  }
  void operator()(const core::RankFailed& fact) {
    event.node = names.Of(fact.node);
    event.rank = fact.rank.value();
    if (IsTask(fact.rank)) Detail("task", RankName(fact.rank));
    event.generation = fact.generation.value();
    Step(fact.step);
    Detail("how", std::string(KindName(fact.cause.kind)));
    Detail("code", std::to_string(fact.cause.code));
    Detail("charged", YesNo(fact.charged));
    Detail("explains", YesNo(fact.explains));
    Detail("step_count", std::to_string(fact.step_count));
    Detail("cgroup_oom", YesNo(fact.cause.cgroup_oom));
    if (fact.cause.memory_limit > 0) {
      Detail("memory_limit_bytes", std::to_string(fact.cause.memory_limit));
    }
    Detail("died_ms", std::to_string(fact.died_for.milliseconds()));
    if (fact.cause.role != ExitCause::Role::kNone) {
      Detail("class", fact.cause.cause_class);
      Detail("role", std::string(RoleName(fact.cause.role)));
      if (!fact.cause.advice.empty()) Detail("advice", fact.cause.advice);
    }
    if (!fact.cause.headline.empty()) Detail("headline", fact.cause.headline);
    if (!fact.cause.fingerprint.empty()) Detail("fingerprint", fact.cause.fingerprint);
  }
  void operator()(const core::RecoveryDecided& fact) {
    if (fact.has_blamed) event.node = names.Of(fact.blamed);
    Step(fact.step);
    Detail("rung", std::string(core::RungName(fact.rung)));
    if (fact.saved_step >= 0) Detail("saved_step", std::to_string(fact.saved_step));
    Detail("reason", fact.reason);
  }
  void operator()(const core::WorldFormed& fact) {
    event.generation = fact.world.generation.value();
    Detail("world_size", std::to_string(fact.world.world_size()));
    Detail("restart_count", std::to_string(fact.world.restart_count));
    Detail("store", fact.world.store.host + ":" + std::to_string(fact.world.store.port));
    Detail("reason", fact.reason);
    for (size_t i = 0; i < fact.world.seats.size(); ++i) {
      const Seat& seat = fact.world.seats[i];
      event.members.push_back({.node = names.Of(seat.node),
                               .seat = static_cast<uint32_t>(i),
                               .first_rank = seat.first_rank,
                               .ranks = seat.rank_count});
    }
  }
  void operator()(const core::WorldRunning& fact) {
    event.generation = fact.generation.value();
    Step(fact.step);
    if (fact.has_no_step) Detail("has_steps", "false");
  }
  void operator()(const core::WorldEnded& fact) {
    event.generation = fact.generation.value();
    Step(fact.step);
    Detail("reason", fact.reason);
  }
  void operator()(const core::SoloRestarted& fact) {
    event.node = names.Of(fact.node);
    event.generation = fact.generation.value();
    Detail("reason", fact.reason);
  }
  void operator()(const core::ProgressMade& fact) {
    Step(fact.step);
    Detail("step_count", std::to_string(fact.step_count));
    if (!fact.evidence.empty()) Detail("evidence", fact.evidence);
  }
  void operator()(const core::GrowthPlanned& fact) {
    event.node = names.Of(fact.node);
    Detail("reason", fact.reason);
  }
  void operator()(const core::SizeChosen& fact) {
    Detail("nodes", std::to_string(fact.nodes));
    if (fact.saved_step >= 0) Detail("saved_step", std::to_string(fact.saved_step));
    Detail("at_once", YesNo(fact.at_once));
    Detail("by_measurement", YesNo(fact.is_measured));
    Detail("reason", fact.reason);
  }
  void operator()(const core::WaitBegan& fact) { Detail("reason", fact.reason); }
  void operator()(const core::StopDecided& fact) {
    Detail("exit_code", std::to_string(fact.exit_code));
    Detail("reason", fact.reason);
  }
  void operator()(const core::RestoreDecided& fact) {
    event.generation = fact.generation.value();
    if (fact.saved.step >= 0) Step(fact.saved.step);
    constexpr std::string_view kFrom[] = {"nothing", "memory", "storage"};
    Detail("from", std::string(kFrom[static_cast<size_t>(fact.from)]));
    if (!fact.name.empty()) Detail("checkpoint", fact.name);
    Detail("reason", fact.reason);
  }
  void operator()(const core::CheckpointCommitted& fact) {
    event.generation = fact.saved.generation;
    Step(fact.saved.step);
    Detail("checkpoint", fact.name);
    Detail("directory", fact.directory);
    Detail("bytes", std::to_string(fact.bytes));
    if (fact.ranks_fixed > 0) Detail("ranks_fixed", std::to_string(fact.ranks_fixed));
  }
  void operator()(const core::CheckpointDamaged& fact) {
    event.node = names.Of(fact.node);
    Detail("checkpoint", fact.name);
  }
  void operator()(const core::CheckpointNotStored& fact) {
    event.generation = fact.saved.generation;
    Step(fact.saved.step);
    Detail("directory", fact.directory);
    Detail("reason", fact.reason);
    Detail("final", YesNo(fact.is_final));
  }
  void operator()(const core::TasksPlaced& fact) {
    Detail("reason", fact.reason);
    for (const Task& task : fact.tasks) {
      Detail(RankName(task.rank).c_str(),
             names.Of(task.node) + " slot " + std::to_string(task.slot) + ", generation " +
                 std::to_string(WorldNumber(task.generation)) + ", " + task.host + ":" +
                 std::to_string(task.port) + ", restarts " + std::to_string(task.restarts) +
                 (task.is_done ? ", done" : ""));
    }
  }
  void operator()(const core::TasksScaled& fact) {
    Detail("workers", std::to_string(fact.workers));
    Detail("servers", std::to_string(fact.servers));
    Detail("reason", fact.reason);
  }
  void operator()(const core::TablesMoved& fact) {
    Detail("from", RankName(TaskRank(TaskKind::kPs, fact.from)));
    Detail("to", RankName(TaskRank(TaskKind::kPs, fact.to)));
    Detail("partitions", std::to_string(fact.partitions.size()));
    Detail("reason", fact.reason);
  }
  void operator()(const core::NodeCheckOrdered& fact) {
    event.node = names.Of(fact.node);
    Detail("round", std::to_string(fact.round));
    Detail("slow", YesNo(fact.is_slow));
    Detail("reason", fact.reason);
  }
  void operator()(const core::PairsJudged& fact) {
    Detail("all_good", YesNo(!fact.HasTold() && fact.missed.empty()));
    Detail("nodes", std::to_string(fact.nodes));
    Detail("pairs", std::to_string(fact.pairs));
    Detail("took_ms", std::to_string(fact.took.milliseconds()));
    if (fact.slowest > 0) Detail("slowest_gb_s", FixedText(fact.slowest, 2));
    Detail("bad", JoinWith(fact.bad, ", "));
    Detail("missed", JoinWith(fact.missed, ", "));
    Detail("bad_links", LinkLines(fact.bad_links));
    Detail("doubtful_links", LinkLines(fact.doubtful));
  }
  void operator()(const core::DrillStruck& fact) {
    event.node = names.Of(fact.node);
    event.generation = fact.generation.value();
    if (fact.has_rank) event.rank = fact.rank.value();
    Detail("drill", fact.kind);
    Detail("reason", fact.reason);
  }
  void operator()(const core::MemoryShort& fact) {
    event.node = names.Of(fact.node);
    event.generation = fact.generation.value();
    Detail("used_bytes", std::to_string(fact.memory.used));
    Detail("limit_bytes", std::to_string(fact.memory.limit));
    if (fact.next_limit > 0) Detail("next_limit_bytes", std::to_string(fact.next_limit));
    if (!fact.is_kill) Detail("left_ms", std::to_string(fact.left.milliseconds()));
    Detail("killed", YesNo(fact.is_kill));
    Detail("reason", fact.reason);
  }
  void operator()(const core::WishChanged& fact) {
    event.node = fact.name;
    Detail("incarnation", std::to_string(fact.incarnation));
  }
  void operator()(const core::HangJudged& fact) {
    event.generation = fact.generation.value();
    if (!fact.culprits.empty()) event.rank = fact.culprits.front().value();
    Detail("hang", fact.hang);
    Detail("acts", YesNo(fact.acts));
    std::string ranks;
    for (const Rank rank : fact.culprits) {
      ranks += (ranks.empty() ? "" : ",") + ToString(rank);
    }
    Detail("culprits", ranks);
    std::string lines;
    for (const std::string& line : fact.lines) lines += (lines.empty() ? "" : "\n") + line;
    Detail("evidence", lines);
    Detail("quiet_ms", std::to_string(fact.quiet_for.milliseconds()));
    if (!fact.later.empty()) Detail("later", fact.later);
  }
  void operator()(const core::HangEnded& fact) {
    event.generation = fact.generation.value();
    Detail("lasted_ms", std::to_string(fact.lasted.milliseconds()));
  }
  void operator()(const core::RankSlow& fact) { Slow(fact.generation, fact.finding); }
  void operator()(const core::RankNoLongerSlow& fact) { Slow(fact.generation, fact.finding); }
  void operator()(const core::TimeAccounted& fact) {
    constexpr std::array<const char*, kTimeParts> kNames = {
        "start_ms",   "work_ms",    "straggler_ms",  "data_ms", "checkpoint_ms",
        "restore_ms", "compile_ms", "evaluation_ms", "end_ms"};
    event.generation = fact.generation.value();
    Detail("ranks", std::to_string(fact.ranks));
    if (fact.steps > 0) Detail("steps", std::to_string(fact.steps));
    for (size_t i = 0; i < kTimeParts; ++i) Detail(kNames[i], std::to_string(fact.spent[i]));
  }
  void operator()(const core::LossWentBad& fact) {
    event.generation = fact.generation.value();
    event.rank = fact.rank.value();
    Step(fact.bad.step);
    Detail("value", std::to_string(fact.bad.value));
    Detail("usual", std::to_string(fact.bad.usual));
  }
  void Slow(Generation generation, const SlowFinding& finding) {
    event.generation = generation.value();
    event.node = finding.node;
    if (finding.ranks.size() == 1) event.rank = finding.ranks.front().value();
    std::string ranks;
    for (const Rank rank : finding.ranks) ranks += (ranks.empty() ? "" : ",") + ToString(rank);
    Detail("ranks", ranks);
    Detail("data", YesNo(finding.is_data));
    Detail("excess", std::to_string(finding.excess));
    Detail("cost", std::to_string(finding.cost));
    Detail("steps_a_day", std::to_string(std::llround(finding.steps_a_day)));
  }
  void operator()(const core::ModelDescribed& fact) {
    Detail("model", fact.name);
    Detail("parameters", std::to_string(fact.parameters));
    Detail("global_batch", std::to_string(fact.global_batch));
  }
  void operator()(const core::ParallelPlanChosen& fact) {
    event.generation = fact.generation.value();
    Detail("plan", fact.words);
    if (!fact.before.empty()) Detail("before", fact.before);
    if (fact.step > 0) Detail("predicted_step", std::to_string(fact.step));
    Detail("because", fact.because);
  }
  void operator()(const core::JobResumed& fact) { Detail("reason", fact.reason); }
  void operator()(const core::JobFinished& fact) {
    if (fact.step > 0) Step(fact.step);
    Detail("exit_code", std::to_string(fact.exit_code));
    Detail("reason", fact.reason);
  }
};

}  // namespace

void NodeNames::Fold(const core::Record& record) {
  worlds_.Fold(record);
  if (const auto* joined = std::get_if<core::NodeJoined>(&record.fact)) {
    names_[joined->node] = joined->name;
  }
}

std::string NodeNames::Of(NodeId node) const {
  const auto it = names_.find(node);
  return it == names_.end() ? "node " + ToString(node) : it->second;
}

JobEvent MakeJobEvent(const core::Record& record, const NodeNames& names) {
  JobEvent event;
  event.seq = record.seq.value();
  event.time_ns = record.at.nanoseconds();
  event.kind = std::string(core::FactName(record.fact));
  event.sentence = core::Sentence(record, names.worlds());
  for (const RecordSeq cause : record.causes) event.causes.push_back(cause.value());
  std::visit(Filler{event, names}, record.fact);
  if (event.generation > 0) {
    event.details["world"] = std::to_string(names.worlds().Of(Generation(event.generation)));
  }
  return event;
}

}  // namespace paceline::master
