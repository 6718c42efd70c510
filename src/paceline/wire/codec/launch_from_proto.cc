// What a user asked for: the job, and how its ranks are started on a host. The second half never
// leaves the host.

#include <map>
#include <string>

#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/task_proto.h"

namespace paceline::wire {
namespace {

absl::Status Take(const pb::Timers& from, Timers* to) {
  PACELINE_TIMERS(TAKE_GIVEN)
  return absl::OkStatus();
}
absl::Status Take(const pb::Budgets& from, Budgets* to) {
  PACELINE_BUDGETS(TAKE_GIVEN)
  return absl::OkStatus();
}

absl::Status Take(const pb::StreamChoice& from, StreamChoice* to) {
  if (from.all() > 3) return Invalid("streams", "are unknown");
  to->all = static_cast<Streams>(from.all());
  for (const auto& [rank, streams] : from.by_local_rank()) {
    if (streams > 3) return Invalid("streams", "are unknown");
    to->by_local_rank[rank] = static_cast<Streams>(streams);
  }
  return absl::OkStatus();
}
absl::Status Take(const pb::ConsoleSpec& from, ConsoleSpec* to) {
  RETURN_IF_ERROR(Take(from.redirects(), &to->redirects));
  RETURN_IF_ERROR(Take(from.tee(), &to->tee));
  to->local_ranks_filter.assign(from.local_ranks_filter().begin(), from.local_ranks_filter().end());
  to->line_prefix_template = from.line_prefix_template();
  to->duplicate_stdout_filters.assign(from.duplicate_stdout_filters().begin(),
                                      from.duplicate_stdout_filters().end());
  to->duplicate_stderr_filters.assign(from.duplicate_stderr_filters().begin(),
                                      from.duplicate_stderr_filters().end());
  if (from.has_fold()) to->fold = from.fold();
  return absl::OkStatus();
}

}  // namespace

absl::Status FromProto(const pb::LaunchSpec& from, LaunchSpec* to) {
  if (from.entry() != pb::ENTRY_KIND_UNSPECIFIED) {
    RETURN_IF_ERROR(Shifted(from.entry(), "entry", EntryKind::kExec, &to->entry));
  }
  to->target = from.target();
  to->args.assign(from.args().begin(), from.args().end());
  to->cwd = from.cwd();
  to->python = from.python();
  to->env = std::map<std::string, std::string>(from.env().begin(), from.env().end());
  if (from.has_role()) to->role = from.role();
  to->run_id = from.run_id();
  to->local_addr = from.local_addr();
  if (from.has_nproc_per_node()) to->nproc_per_node = from.nproc_per_node();
  if (from.has_omp_threads()) to->omp_threads = from.omp_threads();
  if (from.has_warm()) to->warm = from.warm();
  to->preload.assign(from.preload().begin(), from.preload().end());
  to->relays.assign(from.relays().begin(), from.relays().end());
  TAKE_GIVEN(keep_warm)
  to->virtual_local_rank = from.virtual_local_rank();
  to->numa_binding = from.numa_binding();
  to->log_dir = from.log_dir();
  to->log_bytes_max = from.log_bytes_max();
  to->log_total_bytes_max = from.log_total_bytes_max();
  to->master_port = from.master_port();
  to->stdin_pid = from.stdin_pid();
  to->stdin_start = from.stdin_start();
  to->notify_command.assign(from.notify_command().begin(), from.notify_command().end());
  TAKE_GIVEN(notify_timeout)
  to->history_place = from.history_place();
  to->checks.assign(from.checks().begin(), from.checks().end());
  TAKE_GIVEN(check_timeout)
  to->log_rules.assign(from.log_rules().begin(), from.log_rules().end());
  return Take(from.console(), &to->console);
}

absl::Status FromProto(const pb::JobSpec& from, JobSpec* to) {
  RETURN_IF_ERROR(CheckName(from.job_id(), "job_id"));
  to->job_id = from.job_id();
  RETURN_IF_ERROR(Decode(from.name(), "name", &to->name));
  if (from.grow() != pb::GROW_POLICY_UNSPECIFIED) {
    RETURN_IF_ERROR(Shifted(from.grow(), "grow", GrowPolicy::kNever, &to->grow));
  }
  if (from.slow_act() != pb::SLOW_ACT_UNSPECIFIED) {
    RETURN_IF_ERROR(Shifted(from.slow_act(), "slow_act", SlowAct::kReplace, &to->slow_act));
  }
  if (from.scale() != pb::SCALE_MODE_UNSPECIFIED) {
    RETURN_IF_ERROR(Shifted(from.scale(), "scale", ScaleMode::kOff, &to->scale));
  }
  PACELINE_JOB_SPEC(TAKE_GIVEN)
  if (from.has_max_restarts()) to->max_restarts = from.max_restarts();
  RETURN_IF_ERROR(Take(from.timers(), &to->timers));
  RETURN_IF_ERROR(Take(from.budgets(), &to->budgets));
  if (from.has_tasks()) RETURN_IF_ERROR(FromProto(from.tasks(), &to->tasks));
  if (to->nodes_min < 1 || to->nodes_min > to->nodes_max || to->nodes_max > kNodesMax ||
      to->unit < 1 || to->nproc_per_node < 1 || to->nproc_per_node > kRanksPerMessageMax) {
    return Invalid("job", "has an impossible size");
  }
  return absl::OkStatus();
}

}  // namespace paceline::wire
