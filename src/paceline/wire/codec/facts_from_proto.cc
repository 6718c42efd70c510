// The records of the journal.

#include "paceline/wire/codec/checkpoint_proto.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/drill_proto.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/link_proto.h"
#include "paceline/wire/codec/memory_proto.h"
#include "paceline/wire/codec/pace_proto.h"
#include "paceline/wire/codec/plan_proto.h"
#include "paceline/wire/codec/size_proto.h"
#include "paceline/wire/codec/task_proto.h"

namespace paceline::wire {
namespace {

absl::Status Take(const pb::JobCreated& from, core::JobCreated* to) {
  return FromProto(from.spec(), &to->spec);
}
absl::Status Take(const pb::MasterTookOver& from, core::MasterTookOver* to) {
  to->incarnation = from.incarnation();
  RETURN_IF_ERROR(TakeTerm(from.term(), &to->term));
  if (!pb::History_IsValid(from.history())) return Invalid("history", "is unknown");
  to->history = static_cast<core::History>(from.history());
  return absl::OkStatus();
}
absl::Status Take(const pb::NodeJoined& from, core::NodeJoined* to) {
  PACELINE_NODE_JOINED(TAKE)
  return CheckName(to->name, "name");
}
absl::Status Take(const pb::NodeLost& from, core::NodeLost* to) {
  PACELINE_NODE_LOST(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::NodeLeft& from, core::NodeLeft* to) {
  PACELINE_NODE_LEFT(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::NodeEvicted& from, core::NodeEvicted* to) {
  PACELINE_NODE_EVICTED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::NodeChecked& from, core::NodeChecked* to) {
  PACELINE_NODE_CHECKED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::RankFailed& from, core::RankFailed* to) {
  PACELINE_RANK_FAILED(TAKE)
  return FromProto(from.cause(), &to->cause);
}
absl::Status Take(const pb::RecoveryDecided& from, core::RecoveryDecided* to) {
  PACELINE_RECOVERY_DECIDED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::WorldFormed& from, core::WorldFormed* to) {
  PACELINE_WORLD_FORMED(TAKE)
  if (from.world().seats().empty()) return Invalid("world", "has no node");
  return FromProto(from.world(), &to->world);
}
absl::Status Take(const pb::WorldRunning& from, core::WorldRunning* to) {
  PACELINE_WORLD_RUNNING(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::WorldEnded& from, core::WorldEnded* to) {
  PACELINE_WORLD_ENDED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::SoloRestarted& from, core::SoloRestarted* to) {
  PACELINE_SOLO_RESTARTED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::ProgressMade& from, core::ProgressMade* to) {
  PACELINE_PROGRESS_MADE(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::AgentReturned& from, core::AgentReturned* to) {
  PACELINE_AGENT_RETURNED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::HangEnded& from, core::HangEnded* to) {
  PACELINE_HANG_ENDED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::GrowthPlanned& from, core::GrowthPlanned* to) {
  PACELINE_GROWTH_PLANNED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::WaitBegan& from, core::WaitBegan* to) {
  return Decode(from.reason(), "reason", &to->reason);
}
absl::Status Take(const pb::StopDecided& from, core::StopDecided* to) {
  PACELINE_STOP_DECIDED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::JobFinished& from, core::JobFinished* to) {
  PACELINE_JOB_FINISHED(TAKE)
  PACELINE_LAST_STEPS(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::JobResumed& from, core::JobResumed* to) {
  PACELINE_JOB_RESUMED(TAKE)
  return absl::OkStatus();
}

absl::Status Take(const pb::WishChanged& from, core::WishChanged* to) {
  PACELINE_WISH_CHANGED(TAKE)
  return absl::OkStatus();
}
absl::Status Take(const pb::PastRemembered& from, core::PastRemembered* fact) {
  core::Memo* to = &fact->memo;
  PACELINE_MEMO(TAKE)
  for (const auto& [index, times] : from.replaced()) to->replaced[index] = times;
  to->excluded.assign(from.excluded().begin(), from.excluded().end());
  if (from.has_exit_code()) to->exit_code = from.exit_code();
  return absl::OkStatus();
}
absl::Status Take(const pb::NodeNoticed& from, core::NodeNoticed* to) {
  PACELINE_NODE_NOTICED(TAKE)
  to->leave_by = Instant::FromNanoseconds(from.leave_by());
  return absl::OkStatus();
}
absl::Status Take(const pb::HangJudged& from, core::HangJudged* to) {
  PACELINE_HANG_JUDGED(TAKE)
  if (from.culprits_size() > kRanksPerMessageMax) return Invalid("culprits", "are too many");
  for (const uint32_t rank : from.culprits()) {
    RETURN_IF_ERROR(Decode(rank, "culprit", &to->culprits.emplace_back()));
  }
  for (const std::string& line : from.lines()) {
    RETURN_IF_ERROR(Decode(line, "line", &to->lines.emplace_back()));
  }
  return absl::OkStatus();
}

template <class Message, class Value>
absl::Status TakeFact(const Message& from, Value* to) {
  if constexpr (requires { Take(from, to); }) {
    return Take(from, to);
  } else {
    return FromProto(from, to);
  }
}

}  // namespace

absl::StatusOr<core::Fact> FromProto(const pb::Fact& from) {
  core::Fact to;
  absl::Status status;
  switch (from.body_case()) {
#define FACT(kCase, Type, field) \
  case pb::Fact::kCase: status = TakeFact(from.field(), &to.emplace<core::Type>()); break;
    FACT(kJobCreated, JobCreated, job_created)
    FACT(kMasterTookOver, MasterTookOver, master_took_over)
    FACT(kNodeJoined, NodeJoined, node_joined)
    FACT(kNodeLost, NodeLost, node_lost)
    FACT(kNodeLeft, NodeLeft, node_left)
    FACT(kNodeEvicted, NodeEvicted, node_evicted)
    FACT(kNodeChecked, NodeChecked, node_checked)
    FACT(kRankFailed, RankFailed, rank_failed)
    FACT(kRecoveryDecided, RecoveryDecided, recovery_decided)
    FACT(kWorldFormed, WorldFormed, world_formed)
    FACT(kWorldRunning, WorldRunning, world_running)
    FACT(kWorldEnded, WorldEnded, world_ended)
    FACT(kSoloRestarted, SoloRestarted, solo_restarted)
    FACT(kProgressMade, ProgressMade, progress_made)
    FACT(kHangJudged, HangJudged, hang_judged)
    FACT(kHangEnded, HangEnded, hang_ended)
    FACT(kWishChanged, WishChanged, wish_changed)
    FACT(kTasksPlaced, TasksPlaced, tasks_placed)
    FACT(kTasksScaled, TasksScaled, tasks_scaled)
    FACT(kTablesMoved, TablesMoved, tables_moved)
    FACT(kNodeCheckOrdered, NodeCheckOrdered, node_check_ordered)
    FACT(kPairsJudged, PairsJudged, pairs_judged)
    FACT(kDrillStruck, DrillStruck, drill_struck)
    FACT(kMemoryShort, MemoryShort, memory_short)
    FACT(kNodeNoticed, NodeNoticed, node_noticed)
    FACT(kPastRemembered, PastRemembered, past_remembered)
    FACT(kAgentReturned, AgentReturned, agent_returned)
    FACT(kGrowthPlanned, GrowthPlanned, growth_planned)
    FACT(kSizeChosen, SizeChosen, size_chosen)
    FACT(kWaitBegan, WaitBegan, wait_began)
    FACT(kStopDecided, StopDecided, stop_decided)
    FACT(kJobFinished, JobFinished, job_finished)
    FACT(kRestoreDecided, RestoreDecided, restore_decided)
    FACT(kCheckpointCommitted, CheckpointCommitted, checkpoint_committed)
    FACT(kCheckpointDamaged, CheckpointDamaged, checkpoint_damaged)
    FACT(kCheckpointNotStored, CheckpointNotStored, checkpoint_not_stored)
    FACT(kJobResumed, JobResumed, job_resumed)
    FACT(kRankSlow, RankSlow, rank_slow)
    FACT(kRankNoLongerSlow, RankNoLongerSlow, rank_no_longer_slow)
    FACT(kTimeAccounted, TimeAccounted, time_accounted)
    FACT(kLossWentBad, LossWentBad, loss_went_bad)
    FACT(kModelDescribed, ModelDescribed, model_described)
    FACT(kParallelPlanChosen, ParallelPlanChosen, parallel_plan_chosen)
#undef FACT
    case pb::Fact::BODY_NOT_SET: return Invalid("fact", "is empty or of an unknown kind");
  }
  RETURN_IF_ERROR(status);
  return to;
}

}  // namespace paceline::wire
