#include "paceline/wire/codec/to_proto.h"

#include <variant>

#include "paceline/wire/codec/checkpoint_proto.h"
#include "paceline/wire/codec/drill_proto.h"
#include "paceline/wire/codec/encode.h"
#include "paceline/wire/codec/evidence_proto.h"
#include "paceline/wire/codec/link_proto.h"
#include "paceline/wire/codec/memory_proto.h"
#include "paceline/wire/codec/pace_proto.h"
#include "paceline/wire/codec/plan_proto.h"
#include "paceline/wire/codec/ring_proto.h"
#include "paceline/wire/codec/size_proto.h"
#include "paceline/wire/codec/task_proto.h"

namespace paceline::wire {
namespace {

#define ONE(name) +1
static_assert(sizeof(Timers) == (PACELINE_TIMERS(ONE)) * sizeof(Duration),
              "fields.h lacks a timer");
static_assert(sizeof(Budgets) == (PACELINE_BUDGETS(ONE)) * sizeof(uint32_t),
              "fields.h lacks a budget");
#undef ONE

void Fill(const Timers& from, pb::Timers* to) { PACELINE_TIMERS(PUT) }
void Fill(const Budgets& from, pb::Budgets* to) { PACELINE_BUDGETS(PUT) }
void Fill(const StoreAddress& from, pb::StoreAddress* to) { PACELINE_STORE(PUT) }
void Fill(const Seat& from, pb::Seat* to) { PACELINE_SEAT(PUT) }
void Fill(const StreamChoice& from, pb::StreamChoice* to) {
  to->set_all(static_cast<uint32_t>(from.all));
  for (const auto& [rank, streams] : from.by_local_rank) {
    (*to->mutable_by_local_rank())[rank] = static_cast<uint32_t>(streams);
  }
}
void Fill(const ConsoleSpec& from, pb::ConsoleSpec* to) {
  Fill(from.redirects, to->mutable_redirects());
  Fill(from.tee, to->mutable_tee());
  for (const uint32_t rank : from.local_ranks_filter) to->add_local_ranks_filter(rank);
  to->set_line_prefix_template(from.line_prefix_template);
  for (const auto& text : from.duplicate_stdout_filters) to->add_duplicate_stdout_filters(text);
  for (const auto& text : from.duplicate_stderr_filters) to->add_duplicate_stderr_filters(text);
  to->set_fold(from.fold);
}

void Put(const core::HangJudged& from, pb::Fact* fact) {
  auto* to = fact->mutable_hang_judged();
  PACELINE_HANG_JUDGED(PUT)
  for (const Rank rank : from.culprits) to->add_culprits(rank.value());
  for (const std::string& line : from.lines) to->add_lines(Encode(line));
}
void Put(const core::JobCreated& from, pb::Fact* fact) {
  ToProto(from.spec, fact->mutable_job_created()->mutable_spec());
}
void Put(const core::MasterTookOver& from, pb::Fact* fact) {
  auto* to = fact->mutable_master_took_over();
  to->set_incarnation(from.incarnation);
  to->set_term(from.term);
  to->set_history(static_cast<pb::History>(from.history));
}
void Put(const core::NodeJoined& from, pb::Fact* fact) {
  auto* to = fact->mutable_node_joined();
  PACELINE_NODE_JOINED(PUT)
}
void Put(const core::NodeLost& from, pb::Fact* fact) {
  auto* to = fact->mutable_node_lost();
  PACELINE_NODE_LOST(PUT)
}
void Put(const core::NodeLeft& from, pb::Fact* fact) {
  auto* to = fact->mutable_node_left();
  PACELINE_NODE_LEFT(PUT)
}
void Put(const core::NodeEvicted& from, pb::Fact* fact) {
  auto* to = fact->mutable_node_evicted();
  PACELINE_NODE_EVICTED(PUT)
}
void Put(const core::NodeChecked& from, pb::Fact* fact) {
  auto* to = fact->mutable_node_checked();
  PACELINE_NODE_CHECKED(PUT)
}
void Put(const core::RankFailed& from, pb::Fact* fact) {
  auto* to = fact->mutable_rank_failed();
  PACELINE_RANK_FAILED(PUT)
  ToProto(from.cause, to->mutable_cause());
}
void Put(const core::RecoveryDecided& from, pb::Fact* fact) {
  auto* to = fact->mutable_recovery_decided();
  PACELINE_RECOVERY_DECIDED(PUT)
}
void Put(const core::WorldFormed& from, pb::Fact* fact) {
  auto* to = fact->mutable_world_formed();
  PACELINE_WORLD_FORMED(PUT)
  ToProto(from.world, to->mutable_world());
}
void Put(const core::WorldRunning& from, pb::Fact* fact) {
  auto* to = fact->mutable_world_running();
  PACELINE_WORLD_RUNNING(PUT)
}
void Put(const core::WorldEnded& from, pb::Fact* fact) {
  auto* to = fact->mutable_world_ended();
  PACELINE_WORLD_ENDED(PUT)
}
void Put(const core::SoloRestarted& from, pb::Fact* fact) {
  auto* to = fact->mutable_solo_restarted();
  PACELINE_SOLO_RESTARTED(PUT)
}
void Put(const core::ProgressMade& from, pb::Fact* fact) {
  auto* to = fact->mutable_progress_made();
  PACELINE_PROGRESS_MADE(PUT)
}
void Put(const core::AgentReturned& from, pb::Fact* fact) {
  auto* to = fact->mutable_agent_returned();
  PACELINE_AGENT_RETURNED(PUT)
}
void Put(const core::HangEnded& from, pb::Fact* fact) {
  auto* to = fact->mutable_hang_ended();
  PACELINE_HANG_ENDED(PUT)
}
void Put(const core::GrowthPlanned& from, pb::Fact* fact) {
  auto* to = fact->mutable_growth_planned();
  PACELINE_GROWTH_PLANNED(PUT)
}
void Put(const core::WaitBegan& from, pb::Fact* fact) {
  fact->mutable_wait_began()->set_reason(Encode(from.reason));
}
void Put(const core::StopDecided& from, pb::Fact* fact) {
  auto* to = fact->mutable_stop_decided();
  PACELINE_STOP_DECIDED(PUT)
}
void Put(const core::JobFinished& from, pb::Fact* fact) {
  auto* to = fact->mutable_job_finished();
  PACELINE_JOB_FINISHED(PUT)
  PACELINE_LAST_STEPS(PUT)
}

void Put(const core::RestoreDecided& from, pb::Fact* fact) {
  ToProto(from, fact->mutable_restore_decided());
}
void Put(const core::CheckpointCommitted& from, pb::Fact* fact) {
  ToProto(from, fact->mutable_checkpoint_committed());
}
void Put(const core::CheckpointDamaged& from, pb::Fact* fact) {
  ToProto(from, fact->mutable_checkpoint_damaged());
}
void Put(const core::CheckpointNotStored& from, pb::Fact* fact) {
  ToProto(from, fact->mutable_checkpoint_not_stored());
}
void Put(const core::JobResumed& from, pb::Fact* fact) {
  auto* to = fact->mutable_job_resumed();
  PACELINE_JOB_RESUMED(PUT)
}
void Put(const core::TasksPlaced& from, pb::Fact* fact) {
  ToProto(from, fact->mutable_tasks_placed());
}
void Put(const core::TasksScaled& from, pb::Fact* fact) {
  ToProto(from, fact->mutable_tasks_scaled());
}
void Put(const core::TablesMoved& from, pb::Fact* fact) {
  ToProto(from, fact->mutable_tables_moved());
}
void Put(const core::WishChanged& from, pb::Fact* fact) {
  auto* to = fact->mutable_wish_changed();
  PACELINE_WISH_CHANGED(PUT)
}
void Put(const core::PastRemembered& fact, pb::Fact* message) {
  const core::Memo& from = fact.memo;
  auto* to = message->mutable_past_remembered();
  PACELINE_MEMO(PUT)
  for (const auto& [index, times] : from.replaced) (*to->mutable_replaced())[index] = times;
  for (const std::string& host : from.excluded) to->add_excluded(Encode(host));
  if (from.exit_code.has_value()) to->set_exit_code(*from.exit_code);
}
void Put(const core::NodeNoticed& from, pb::Fact* fact) {
  auto* to = fact->mutable_node_noticed();
  PACELINE_NODE_NOTICED(PUT)
  to->set_leave_by(from.leave_by.nanoseconds());
}

void Fill(const JournalBytes& from, pb::JournalPiece* to) {
  PACELINE_JOURNAL_PIECE(PUT)
  to->set_content(from.content);
  for (const std::string& name : from.keepers) to->add_keepers(name);
}

void Put(const Register& from, pb::AgentMessage* message) {
  ToProto(from.report, message->mutable_register_());
  if (from.copy.length == 0) return;
  auto* to = message->mutable_register_()->mutable_copy();
  to->set_term(from.copy.term);
  to->set_length(from.copy.length);
  for (const std::string& name : from.copy.keepers) to->add_keepers(name);
}
void Put(const JournalHeld& from, pb::AgentMessage* message) {
  auto* to = message->mutable_journal_held();
  PACELINE_JOURNAL_HELD(PUT)
}
void Put(const JournalBytes& from, pb::AgentMessage* message) {
  Fill(from, message->mutable_journal_piece());
}
void Put(const JournalBytes& from, pb::MasterMessage* message) {
  Fill(from, message->mutable_journal_piece());
}
void Put(const JournalWanted& from, pb::MasterMessage* message) {
  auto* to = message->mutable_journal_wanted();
  PACELINE_JOURNAL_WANTED(PUT)
}
void Put(const Heartbeat& from, pb::AgentMessage* message) {
  auto* to = message->mutable_heartbeat();
  PACELINE_HEARTBEAT(PUT)
  for (const RankReport& rank : from.ranks) ToProto(rank, to->add_ranks());
  for (const RankSample& sample : from.samples) ToProto(sample, to->add_samples());
  for (const RankTimes& times : from.times) ToProto(times, to->add_times());
  if (from.memory.has_value()) ToProto(*from.memory, to->mutable_memory());
}
void Put(const RankEnd& from, pb::AgentMessage* message) {
  auto* to = message->mutable_rank_end();
  ToProto(from.rank, to->mutable_rank());
  if (from.times.has_value()) ToProto(*from.times, to->mutable_times());
}
void Put(const Leaving& from, pb::AgentMessage* message) {
  message->mutable_leaving()->set_why(Encode(from.why));
}

void Fill(const NodeCheck& from, pb::NodeCheck* to) { PACELINE_NODE_CHECK(PUT) }

void Put(const NodeCheck& from, pb::AgentMessage* message) { Fill(from, message->mutable_check()); }

void Put(const NodeEvidence& from, pb::AgentMessage* message) {
  ToProto(from, message->mutable_evidence());
}
void Put(const EvidenceOrder& from, pb::MasterMessage* message) {
  auto* to = message->mutable_evidence();
  PACELINE_EVIDENCE(PUT)
}

void Put(const CheckpointReport& from, pb::AgentMessage* message) {
  ToProto(from, message->mutable_checkpoint());
}

void Put(const CheckpointOrder& from, pb::MasterMessage* message) {
  ToProto(from, message->mutable_checkpoint());
}
void Put(const Welcome& from, pb::MasterMessage* message) {
  auto* to = message->mutable_welcome();
  to->set_node(from.node.value());
  ToProto(from.spec, to->mutable_spec());
  to->set_heartbeat_interval(Encode(from.heartbeat_interval));
  to->set_lease_port(from.lease_port);
  to->set_term(from.term);
  to->set_incarnation(from.incarnation);
}
void Put(const Pace& from, pb::MasterMessage* message) {
  message->mutable_pace()->set_heartbeat_interval(Encode(from.heartbeat_interval));
}
void Put(const Assignment& from, pb::MasterMessage* message) {
  ToProto(from, message->mutable_assignment());
}
void Put(const Refusal& from, pb::MasterMessage* message) {
  auto* to = message->mutable_refusal();
  PACELINE_REFUSAL(PUT)
}

void Fill(const RankStatus& from, pb::RankStatus* to) {
  PACELINE_RANK_STATUS(PUT)
  if (from.loss.has_value()) to->set_loss(*from.loss);
}
void Fill(const CheckpointStatus& from, pb::CheckpointStatus* to) {
  PACELINE_CHECKPOINT_STATUS(PUT)
  if (from.storage_age.has_value()) to->set_storage_age(from.storage_age->nanoseconds());
}
void Fill(const NodeStatus& from, pb::NodeStatus* to) {
  PACELINE_NODE_STATUS(PUT)
  if (from.seat.has_value()) to->set_seat(*from.seat);
  for (const RankStatus& rank : from.ranks) Fill(rank, to->add_ranks());
}

}  // namespace

void ToProto(const JobSpec& from, pb::JobSpec* to) {
  to->set_job_id(from.job_id);
  to->set_name(Encode(from.name));
  to->set_grow(Encode(from.grow));
  to->set_scale(Encode(from.scale));
  to->set_slow_act(Encode(from.slow_act));
  PACELINE_JOB_SPEC(PUT)
  if (from.max_restarts.has_value()) to->set_max_restarts(*from.max_restarts);
  if (from.tasks.is_on()) ToProto(from.tasks, to->mutable_tasks());
  Fill(from.timers, to->mutable_timers());
  Fill(from.budgets, to->mutable_budgets());
}

void ToProto(const LaunchSpec& from, pb::LaunchSpec* to) {
  to->set_entry(Encode(from.entry));
  to->set_target(from.target);
  for (const std::string& arg : from.args) to->add_args(arg);
  to->set_cwd(from.cwd);
  to->set_python(from.python);
  for (const auto& [name, value] : from.env) (*to->mutable_env())[name] = value;
  to->set_role(from.role);
  to->set_run_id(from.run_id);
  to->set_local_addr(from.local_addr);
  for (const std::string& relay : from.relays) to->add_relays(relay);
  to->set_nproc_per_node(from.nproc_per_node);
  if (from.omp_threads.has_value()) to->set_omp_threads(*from.omp_threads);
  to->set_warm(from.warm);
  for (const std::string& name : from.preload) to->add_preload(name);
  to->set_keep_warm(Encode(from.keep_warm));
  to->set_virtual_local_rank(from.virtual_local_rank);
  to->set_numa_binding(from.numa_binding);
  to->set_log_dir(from.log_dir);
  to->set_log_bytes_max(from.log_bytes_max);
  to->set_log_total_bytes_max(from.log_total_bytes_max);
  to->set_master_port(from.master_port);
  to->set_stdin_pid(from.stdin_pid);
  to->set_stdin_start(from.stdin_start);
  for (const std::string& word : from.notify_command) to->add_notify_command(word);
  to->set_notify_timeout(Encode(from.notify_timeout));
  to->set_history_place(from.history_place);
  for (const std::string& path : from.checks) to->add_checks(path);
  to->set_check_timeout(Encode(from.check_timeout));
  for (const std::string& path : from.log_rules) to->add_log_rules(path);
  Fill(from.console, to->mutable_console());
}

void ToProto(const ExitCause& from, pb::ExitCause* to) { PACELINE_EXIT_CAUSE(PUT) }

void ToProto(const RankReport& from, pb::RankReport* to) {
  PACELINE_RANK_REPORT(PUT)
  if (from.has_loss) to->set_loss(from.loss);
  if (from.bad_loss.count > 0) ToProto(from.bad_loss, to->mutable_bad_loss());
  if (from.is_quiet) to->set_phase(Encode(from.phase));
  if (from.state == RankReport::State::kExited) ToProto(from.exit, to->mutable_exit());
}

void ToProto(const NodeReport& from, pb::NodeReport* to) {
  PACELINE_NODE_REPORT(PUT)
  if (from.check.state != NodeCheck::State::kNone) Fill(from.check, to->mutable_check());
  for (const uint32_t port : from.task_ports) to->add_task_ports(port);
  for (const RankReport& rank : from.ranks) ToProto(rank, to->add_ranks());
}

void ToProto(const Assignment& from, pb::Assignment* to) {
  PACELINE_ASSIGNMENT(PUT)
  ToProto(from.tasks, to->mutable_tasks());
  ToProto(from.cluster, to->mutable_cluster());
  Fill(from.store, to->mutable_store());
}

void ToProto(const World& from, pb::World* to) {
  to->set_generation(from.generation.value());
  for (const Seat& seat : from.seats) Fill(seat, to->add_seats());
  Fill(from.store, to->mutable_store());
  to->set_restart_count(from.restart_count);
}

void ToProto(const AgentMessage& from, pb::AgentMessage* to) {
  std::visit([&](const auto& body) { Put(body, to); }, from);
}
void ToProto(const MasterMessage& from, pb::MasterMessage* to) {
  std::visit([&](const auto& body) { Put(body, to); }, from);
}
void ToProto(const core::Fact& from, pb::Fact* to) {
  std::visit([&](const auto& fact) { Put(fact, to); }, from);
}
void ToProto(const JobStatus& from, pb::JobStatus* to) {
  PACELINE_JOB_STATUS(PUT)
  Fill(from.checkpoints, to->mutable_checkpoints());
  if (from.loss.has_value()) to->set_loss(*from.loss);
  if (from.since_step.has_value()) to->set_since_step(from.since_step->nanoseconds());
  if (from.exit_code.has_value()) to->set_exit_code(*from.exit_code);
  for (const NodeStatus& node : from.nodes) Fill(node, to->add_nodes());
  for (const SlowStatus& slow : from.slow) ToProto(slow, to->add_slow());
  for (const TaskStatus& task : from.tasks) ToProto(task, to->add_tasks());
  for (const std::string& host : from.excluded_hosts) to->add_excluded_hosts(Encode(host));
  for (const std::string& link : from.links) to->add_links(Encode(link));
  for (const std::string& sentence : from.memory) to->add_memory(Encode(sentence));
  if (from.hang.has_value()) ToProto(*from.hang, to->mutable_hang());
  if (from.size.nodes_max > 0) ToProto(from.size, to->mutable_size());
  if (from.plan.generation > 0) ToProto(from.plan, to->mutable_plan());
}

void ToProto(const JobEvent& from, pb::JobEvent* to) {
  PACELINE_JOB_EVENT(PUT)
  if (from.rank.has_value()) to->set_rank(*from.rank);
  if (from.step.has_value()) to->set_step(*from.step);
  for (const uint64_t cause : from.causes) to->add_causes(cause);
  for (const auto& [key, value] : from.details) {
    (*to->mutable_details())[CleanText(key)] = CleanText(value);
  }
  for (const WorldMember& member : from.members) {
    auto* added = to->add_members();
    added->set_node(Encode(member.node));
    added->set_seat(member.seat);
    added->set_first_rank(member.first_rank);
    added->set_ranks(member.ranks);
  }
}

void ToProto(const StopRequest& from, pb::StopRequest* to) { PACELINE_STOP_REQUEST(PUT) }

}  // namespace paceline::wire
