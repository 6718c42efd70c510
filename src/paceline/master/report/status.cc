#include "paceline/master/report/status.h"

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/core/memory_told.h"
#include "paceline/core/world/link_notes.h"
#include "paceline/core/world_count.h"
#include "paceline/diagnose/slow.h"
#include "paceline/master/report/task_status.h"

namespace paceline::master {
namespace {

std::string ExitText(const ExitCause& cause) {
  if (cause.asked && !cause.is_success()) return "ended by paceline";
  if (!cause.headline.empty()) return cause.headline;
  switch (cause.kind) {
    case ExitCause::Kind::kExited: return "exit code " + std::to_string(cause.code);
    case ExitCause::Kind::kSignaled: return "signal " + std::to_string(cause.code);
    case ExitCause::Kind::kUnknown: return "ended, exit status unknown";
    case ExitCause::Kind::kNotStarted: return "was not started";
    case ExitCause::Kind::kHung: return "was hung";
  }
  return "";
}

wire::RankStatus ToStatus(const RankReport& rank) {
  wire::RankStatus status;
  status.rank = rank.rank.value();
  status.local_rank = rank.local_rank;
  status.pid = rank.pid;
  status.generation = rank.generation.value();
  status.state = std::string(RankStateName(rank.state));
  status.step = rank.step;
  status.step_count = rank.step_count;
  status.saved_step = rank.saved_step;
  if (rank.has_loss) status.loss = rank.loss;
  if (rank.state == RankReport::State::kExited) status.exit = ExitText(rank.exit);
  return status;
}

wire::NodeStatus ToStatus(const core::NodeState& node, const core::JobState& state) {
  wire::NodeStatus status;
  status.id = node.id.value();
  status.name = node.name;
  // A node whose slots hold tasks has no seat in a world, and waits for none either.
  const bool has_task =
      std::any_of(state.tasks.begin(), state.tasks.end(),
                  [&](const core::TaskState& task) { return task.task.node == node.id; });
  const bool is_busy_spare = has_task && node.status == core::NodeState::Status::kSpare;
  status.state = std::string(
      core::NodeStatusName(is_busy_spare ? core::NodeState::Status::kSeated : node.status));
  status.reason = node.reason;
  status.address = node.address;
  if (state.world.has_value()) {
    const int seat = state.world->SeatOf(node.id);
    if (seat >= 0) status.seat = static_cast<uint32_t>(seat);
  }
  return status;
}

// A node that waits may tell of ranks that ended with an earlier world, and others have them now.
bool IsOfThePast(const core::JobState& state, NodeId node, const RankReport& rank) {
  return rank.state == RankReport::State::kExited && state.world.has_value() &&
         rank.generation < state.world->generation && !state.IsSeated(node);
}

void AddLink(const core::JobState& state, const core::NodeLink& link, Instant now,
             wire::NodeStatus* status) {
  status->connected = link.connection.has_value();
  status->agent_pid = link.agent_pid;
  status->silent_for = std::max(Duration(), now - link.last_heard);
  status->generation = link.carried_out.value();
  for (const auto& [local_rank, rank] : link.ranks) {
    if (!IsOfThePast(state, NodeId(status->id), rank)) status->ranks.push_back(ToStatus(rank));
  }
}

// Without the ranks' own numbers: the step counter of the world's furthest rank is kept by the job.
void AddStep(const core::Job& job, wire::JobStatus* status) {
  status->step = job.step();
  if (status->step < 0 && job.step_count() > 0) status->step = job.step_count();
  status->step = std::max(status->step, job.state().final_step > 0 ? job.state().final_step : -1);
}

// The newest loss that a rank of the current world reported, and the world's step count.
void AddProgress(const core::Job& job, wire::JobStatus* status) {
  status->step = job.step();
  int64_t counted = -1;
  uint32_t lowest = UINT32_MAX;
  for (const wire::NodeStatus& node : status->nodes) {
    for (const wire::RankStatus& rank : node.ranks) {
      if (rank.generation != status->generation) continue;
      counted = std::max(counted, rank.step_count);
      if (rank.loss.has_value() && rank.rank < lowest) {
        lowest = rank.rank;
        status->loss = rank.loss;
      }
    }
  }
  if (status->step < 0 && counted > 0) status->step = counted;
  status->step = std::max(status->step, job.state().final_step > 0 ? job.state().final_step : -1);
}

// Commits come from the journal, also after the job; the rest comes from reports.
wire::CheckpointStatus StatusOf(const core::CheckpointBook& book,
                                const core::CheckpointLedger& ledger, Instant now) {
  wire::CheckpointStatus status;
  if (book.committed.has_value()) {
    status.directory = book.committed->directory;
    status.storage_step = book.committed->saved.step;
    status.storage_bytes = book.committed->bytes;
    status.storage_age = std::max(Duration(), now - book.committed_at);
  }
  if (ledger.terms().has_value()) status.directory = ledger.terms()->directory;
  if (const auto newest = ledger.newest_in_memory()) status.memory_step = newest->step;
  if (const auto writing = ledger.persisting()) status.writing_step = writing->step;
  status.problem = ledger.problem();
  status.restored = book.restore.reason;
  status.restored_step = book.restore.saved.step;
  status.memory_restores = book.memory_restores;
  status.storage_restores = book.storage_restores;
  status.commits = book.commits;
  return status;
}

// "; node2: 0/3 nodes are available", while nodes are waited for.
std::string PendingNodes(const core::JobState& state, const HostView& host) {
  if (state.phase != core::Phase::kWaiting || host.pending_nodes == nullptr) return "";
  for (const auto& [name, reason] : *host.pending_nodes) {
    const size_t more = host.pending_nodes->size() - 1;
    return "; " + name + ": " + reason +
           (more == 0 ? std::string() : " (and " + std::to_string(more) + " more)");
  }
  return "";
}

// Says that no step comes, before a hang is named, and when paceline looks at the ranks.
void AddStandstill(const core::Job& job, Instant now, wire::JobStatus* status) {
  const core::HangWatch& hang = job.hang();
  std::string next;
  if (hang.is_asked) {
    next = "; the nodes are asked what their ranks do";
  } else if (!hang.look_at.is_max()) {
    const Duration left = std::max(Duration(), hang.look_at - now);
    next = "; its ranks are examined again in " + ToString(left);
  } else {
    next = "; its ranks are examined when one of them does nothing any more";
  }
  status->steps_per_second = 0;
  status->pending = Concat("no step for ", ToString(*status->since_step), next);
}

// Says that nothing goes on, and no speed, which would be an old one.
void AddHang(const core::Job& job, wire::JobStatus* status) {
  const core::HangWatch& hang = job.hang();
  const core::Phase phase = job.state().phase;
  const bool trains = phase == core::Phase::kStarting || phase == core::Phase::kRunning;
  if (!trains || hang.told_seq == RecordSeq()) return;
  wire::HangStatus& told = status->hang.emplace();
  told.seq = hang.told_seq.value();
  for (const Rank rank : hang.told_ranks) told.ranks.push_back(rank.value());
  told.sentence = hang.told_sentence;
  status->steps_per_second = 0;
  status->pending = told.sentence;
  if (!status->since_step.has_value()) return;
  status->pending = Concat("no step for ", ToString(*status->since_step), ": ", told.sentence);
}

std::string_view ScaleModeName(ScaleMode mode) {
  constexpr std::string_view kNames[] = {"advise", "auto", "off"};
  return kNames[static_cast<size_t>(mode)];
}

// The steps of the whole training, as a rank of the world told them; 0: none did.
int64_t StepsTotal(const core::Job& job) {
  if (!job.state().world.has_value()) return 0;
  int64_t total = 0;
  for (const auto& [id, link] : job.links()) {
    for (const auto& [local_rank, rank] : link.ranks) {
      const bool is_of_world = rank.generation == job.state().world->generation;
      if (is_of_world) total = std::max(total, rank.steps_total);
    }
  }
  return total;
}

wire::SizeStatus SizeOf(const core::Job& job, Instant now, const HostView& host) {
  const core::JobState& state = job.state();
  wire::SizeStatus size = {.nodes_min = state.spec.nodes_min,
                           .nodes_max = state.spec.nodes_max,
                           .unit = state.spec.unit,
                           .chosen = state.size.nodes,
                           .can_keep = state.has_resumed || job.saved_step() >= 0 ||
                                       state.checkpoints.committed.has_value() ||
                                       job.checkpoints().newest_in_memory().has_value(),
                           .is_measured = state.size.is_measured,
                           .mode = std::string(ScaleModeName(state.spec.scale))};
  if (host.scale_desk == nullptr || state.spec.scale == ScaleMode::kOff) return size;
  const core::SizeAdvice advice = host.scale_desk->Advise(
      state, {.now = now, .created_at = host.created_at, .steps_left = StepsLeft(job)});
  size.curve = host.scale_desk->Curve();
  size.hindrance = advice.hindrance;
  if (advice.choice.has_value()) {
    size.best = advice.choice->best;
    size.advice = advice.choice->reason;
  }
  return size;
}

void AddSlow(const core::JobState& state, wire::JobStatus* status) {
  for (const SlowFinding& finding : state.slow) {
    wire::SlowStatus& slow = status->slow.emplace_back();
    for (const Rank rank : finding.ranks) slow.ranks.push_back(rank.value());
    slow.sentence = diagnose::SlowSentence(finding);
    slow.excess = finding.excess;
    slow.cost = finding.cost;
    slow.is_data = finding.is_data;
  }
}

// What was recorded in this world of nodes whose memory runs out.
void AddMemory(const core::JobState& state, wire::JobStatus* status) {
  if (!state.short_node.has_value() || !state.world.has_value()) return;
  for (const Seat& seat : state.world->seats) {
    const core::NodeState* node = state.Find(seat.node);
    const core::MemoryTold* told = node == nullptr ? nullptr : core::MemoryToldOf(state, *node);
    if (told != nullptr) status->memory.push_back(told->sentence);
  }
}

}  // namespace

int64_t StepsLeft(const core::Job& job) {
  const int64_t total = StepsTotal(job);
  return total > 0 ? std::max<int64_t>(0, total - std::max<int64_t>(0, job.step())) : -1;
}

std::string_view RankStateName(RankReport::State state) {
  switch (state) {
    case RankReport::State::kStarting: return "starting";
    case RankReport::State::kRunning: return "running";
    case RankReport::State::kStepping: return "stepping";
    case RankReport::State::kExited: return "exited";
  }
  return "unknown";
}

wire::JobStatus MakeJobBrief(const core::Job& job, Instant now, const HostView& host) {
  const core::JobState& state = job.state();
  wire::JobStatus status;
  status.job_id = state.spec.job_id;
  status.name = state.spec.name;
  status.phase = std::string(core::PhaseName(state.phase));
  status.pending = job.Pending() + PendingNodes(state, host);
  status.master_pid = host.pid;
  status.master_incarnation = state.master_incarnation;
  status.generation = state.world.has_value() ? state.world->generation.value() : 0;
  status.world_size = state.world.has_value() ? state.world->world_size() : 0;
  status.restart_count = state.restart_count;
  status.failures = state.budget.charged_failures;
  status.goodput = host.goodput;
  status.steps_per_second = host.steps_per_second;
  status.since_step = host.since_step;
  status.age = std::max(Duration(), now - host.created_at);
  status.journal = host.journal;
  status.last_seq = host.durable.value();
  if (state.phase == core::Phase::kFinished) {
    status.exit_code = state.exit_code;
    status.final_reason = state.final_reason;
  }
  status.excluded_hosts = state.excluded;
  for (const auto& link : state.links) status.links.push_back(core::LinkText(link));
  status.checkpoints = StatusOf(state.checkpoints, job.checkpoints(), now);
  AddSlow(state, &status);
  AddMemory(state, &status);
  AddStep(job, &status);
  const bool is_still = host.is_still && host.since_step.has_value();
  if (is_still && state.phase == core::Phase::kRunning) AddStandstill(job, now, &status);
  AddHang(job, &status);
  return status;
}

wire::JobStatus MakeJobStatus(const core::Job& job, Instant now, const HostView& host) {
  const core::JobState& state = job.state();
  wire::JobStatus status = MakeJobBrief(job, now, host);
  status.size = SizeOf(job, now, host);
  for (const auto& [id, node] : state.nodes) {
    wire::NodeStatus& added = status.nodes.emplace_back(ToStatus(node, state));
    const auto link = job.links().find(id);
    if (link == job.links().end()) continue;
    AddLink(state, link->second, now, &added);
  }
  status.steps_total = StepsTotal(job);
  status.tasks = TasksOf(job, now);
  if (state.plan.has_value()) {
    const core::ParallelPlanChosen& plan = *state.plan;
    core::WorldCount worlds;
    worlds.Add(state.last_world.generation, uint64_t{state.last_world.restart_count} + 1);
    status.plan = {.generation = plan.generation.value(),
                   .words = plan.words,
                   .sentence = core::Sentence({.fact = plan}, worlds),
                   .step = plan.step,
                   .plan = plan.plan};
  }
  AddProgress(job, &status);
  return status;
}

}  // namespace paceline::master
