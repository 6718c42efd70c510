// One sentence for every record: the same words in the console, in journal readers and in tests.

#include <string>
#include <string_view>

#include "paceline/base/text.h"
#include "paceline/core/budget.h"
#include "paceline/core/checkpoint/storage_wait.h"
#include "paceline/core/record.h"
#include "paceline/core/world/link_notes.h"
#include "paceline/core/world/ranks.h"
#include "paceline/core/world_count.h"
#include "paceline/diagnose/slow.h"
#include "paceline/plan/explain.h"

namespace paceline::core {

namespace {

// "2nd", "11th", …
std::string Ordinal(uint64_t number) {
  const uint64_t tens = number % 100 / 10;
  const char* const endings[] = {"th", "st", "nd", "rd"};
  const uint64_t ones = tens == 1 ? 0 : number % 10;
  return std::to_string(number) + endings[ones <= 3 ? ones : 0];
}

std::string WithReason(std::string text, const std::string& reason) {
  return reason.empty() ? text : text + ": " + reason;
}

struct Teller {
  const WorldCount& worlds;

  std::string NameOf(Generation generation) const {
    return "world " + std::to_string(worlds.Of(generation));
  }
  std::string operator()(const JobCreated& fact) const {
    const JobSpec& spec = fact.spec;
    std::string nodes = std::to_string(spec.nodes_max);
    if (spec.nodes_min != spec.nodes_max) nodes = std::to_string(spec.nodes_min) + " to " + nodes;
    return "job " + spec.job_id + " was submitted for " + nodes +
           (spec.nodes_max == 1 ? " node" : " nodes") +
           (spec.spares > 0 ? " and " + Counted(spec.spares, "spare") : "");
  }
  std::string operator()(const MasterTookOver& fact) const {
    std::string text = "a master took over";
    if (fact.term > 1) text += ", the job's " + Ordinal(fact.term);
    if (fact.history == History::kCopy) {
      return text + ": a node had a copy of the journal, and records up to here are complete";
    }
    if (fact.history == History::kNone) {
      return text + ": no node had a copy of the journal, so what happened before is not known";
    }
    return text;
  }
  std::string operator()(const PastRemembered& fact) const {
    const Memo& memo = fact.memo;
    if (memo.exit_code.has_value()) {
      return "the platform knows that the job has ended with exit code " +
             std::to_string(*memo.exit_code);
    }
    if (memo.charged_failures == 0) return "the platform knows of no failure of the job";
    return "the platform knows of " + Counted(memo.charged_failures, "failure") + ", " +
           std::to_string(memo.failures_without_progress) + " of them without progress since";
  }
  std::string operator()(const NodeJoined& fact) const {
    return fact.name + (fact.returned ? " came back" : " joined") + " with " +
           Counted(fact.slots, "rank");
  }
  std::string operator()(const NodeLost& fact) const {
    return fact.name + " is lost: it " + fact.reason +
           (fact.finished ? "; its ranks were done" : "") +
           (fact.explains ? "; that explains the failure before" : "");
  }
  std::string operator()(const NodeNoticed& fact) const {
    return fact.name + " is taken away by its platform (" + fact.reason +
           "): it leaves as soon as that costs no step";
  }
  std::string operator()(const AgentReturned& fact) const {
    return "the agent of " + fact.name + " was started again; its " + Counted(fact.ranks, "rank") +
           " trained on";
  }
  std::string operator()(const NodeLeft& fact) const { return fact.name + " " + fact.reason; }
  std::string operator()(const NodeChecked& fact) const {
    return WithReason(fact.name + (fact.ok ? " passed its checks" : " failed its checks"),
                      fact.reason);
  }
  std::string operator()(const NodeEvicted& fact) const {
    return WithReason(fact.name + " is taken out of the job", fact.reason) +
           (fact.host.empty() ? ""
                              : "; its host " + fact.host + " gets no node of the job any more");
  }
  std::string operator()(const HangJudged& fact) const { return fact.sentence; }
  std::string operator()(const HangEnded& fact) const {
    return "the hang ended by itself after " + ToString(fact.lasted);
  }
  std::string operator()(const RankSlow& fact) const {
    return diagnose::SlowSentence(fact.finding);
  }
  std::string operator()(const RankNoLongerSlow& fact) const {
    return diagnose::NoLongerSlowSentence(fact.finding);
  }
  std::string operator()(const TimeAccounted& fact) const {
    int64_t sum = 0;
    for (const int64_t part : fact.spent) sum += part;
    return Counted(fact.ranks, "rank") + " of " + NameOf(fact.generation) + " told the phases of " +
           ToString(Duration::Seconds(sum / 1000)) + " of rank time";
  }
  std::string operator()(const LossWentBad& fact) const {
    return "rank " + ToString(fact.rank) + ": " + BadLossText(fact.bad);
  }
  std::string operator()(const ModelDescribed& fact) const {
    return "the model is " + fact.name + " with " + plan::ParametersText(fact.parameters) +
           "; a step takes " + Counted(fact.global_batch, "sample");
  }
  std::string operator()(const ParallelPlanChosen& fact) const {
    const bool is_other = !fact.before.empty() && fact.before != fact.words;
    std::string text = NameOf(fact.generation) + " trains by the plan " + fact.words;
    if (is_other) text += " instead of " + fact.before;
    if (fact.step > 0) text += ", " + plan::SecondsText(fact.step) + " a step as predicted";
    return WithReason(std::move(text), fact.because);
  }
  std::string operator()(const WishChanged& fact) const {
    return fact.name + " " + fact.reason + " before it joined; the master requests it again.";
  }
  std::string operator()(const RankFailed& fact) const {
    const std::string who = RankTitle(fact.rank) + " on " + fact.node_name;
    const std::string what = FailureText(fact.cause);
    std::string text = who + (TellsOfRank(what) ? " " + what : " failed: " + what);
    const bool has_step = !IsTask(fact.rank) || fact.step >= 0 || fact.step_count > 0;
    if (has_step) text = WithStep(text, StepText(fact.step, fact.step_count));
    if (fact.explains) text += "; that explains the failure before";
    if (!fact.charged && !fact.explains) text += " (not charged)";
    return text;
  }
  std::string operator()(const RecoveryDecided& fact) const {
    if (fact.rung == Rung::kNone && !fact.reason.empty()) return fact.reason;
    return WithReason(std::string(RungName(fact.rung)), fact.reason);
  }
  std::string operator()(const WorldFormed& fact) const {
    // Names of folders and errors have the generation.
    const uint64_t number = WorldNumber(fact.world.generation);
    std::string name = NameOf(fact.world.generation);
    if (worlds.Of(fact.world.generation) != number) {
      name += " (generation " + std::to_string(number) + ")";
    }
    return name + " has " + Counted(fact.world.seats.size(), "node") + " and " +
           Counted(fact.world.world_size(), "rank") + ": " + fact.reason;
  }
  std::string operator()(const WorldRunning& fact) const {
    // The step is the first that the master heard of, which need not be the world's first.
    if (fact.has_no_step)
      return NameOf(fact.generation) + " has run for " + ToString(kStepless) +
             ", and no rank has made a step that paceline can count";
    return NameOf(fact.generation) + " trains" +
           (fact.step >= 0 ? ", at step " + std::to_string(fact.step) : "");
  }
  std::string operator()(const WorldEnded& fact) const {
    return NameOf(fact.generation) + " ended" +
           (fact.step >= 0 ? " at step " + std::to_string(fact.step) : "") + ": " + fact.reason;
  }
  std::string operator()(const SoloRestarted& fact) const {
    return fact.name + " " + fact.reason + ", as " + NameOf(fact.generation);
  }
  std::string operator()(const ProgressMade& fact) const {
    if (!fact.evidence.empty()) return fact.evidence + ": that counts as progress";
    if (fact.step >= 0) return "step " + std::to_string(fact.step) + " is a new highest step";
    if (fact.step_count > 0) {
      return std::to_string(fact.step_count) + " optimizer steps are more than any attempt before";
    }
    return "it ran undisturbed for " + ToString(kQuietProgress) + ": that counts as progress";
  }
  std::string operator()(const GrowthPlanned& fact) const { return fact.name + " " + fact.reason; }
  std::string operator()(const SizeChosen& fact) const {
    return WithReason("the job is to have " + Counted(fact.nodes, "node"), fact.reason);
  }
  std::string operator()(const WaitBegan& fact) const {
    return fact.reason.empty() ? "the job waits" : fact.reason;
  }
  std::string operator()(const StopDecided& fact) const {
    return "paceline ends the job with exit code " + std::to_string(fact.exit_code) + ": " +
           fact.reason;
  }
  std::string operator()(const RestoreDecided& fact) const {
    return NameOf(fact.generation) + " " + fact.reason;
  }
  std::string operator()(const CheckpointCommitted& fact) const {
    return "the checkpoint of step " + std::to_string(fact.saved.step) +
           " is complete: " + fact.directory + "/" + fact.name +
           (fact.ranks_fixed == 0
                ? std::string()
                : "; each rank has parameters of its own, so only " +
                      std::to_string(fact.ranks_fixed) + " ranks can go on from it");
  }
  std::string operator()(const CheckpointDamaged& fact) const {
    return "checkpoint " + fact.name + " is damaged and will not be used: a rank on " +
           fact.node_name + " found bytes that differ from those that were saved";
  }
  std::string operator()(const CheckpointNotStored& fact) const {
    const std::string step = "step " + std::to_string(fact.saved.step);
    if (fact.is_final) {
      return step + " is in memory only; paceline has stopped trying to write it" +
             (fact.directory.empty() ? "" : " to " + fact.directory) + ": " + fact.reason;
    }
    const std::string refusal = "storage refuses " + step + ": " + fact.directory + ": ";
    if (IsForGood(fact.reason)) {
      return refusal + fact.reason +
             "; this job saves to memory only: stop it, and give it another "
             "directory";
    }
    return refusal + fact.reason + "; " + MendingOf(fact.directory, fact.reason) +
           "; paceline tries again by itself";
  }
  std::string operator()(const TasksPlaced& fact) const { return fact.reason; }
  std::string operator()(const TasksScaled& fact) const { return "the job goes " + fact.reason; }
  std::string operator()(const TablesMoved& fact) const { return fact.reason; }
  std::string operator()(const NodeCheckOrdered& fact) const {
    return fact.name + " is checked once more: " + fact.reason;
  }
  std::string operator()(const PairsJudged& fact) const { return LinksText(fact); }
  std::string operator()(const DrillStruck& fact) const {
    const bool is_agent = fact.loss == DrillLoss::kAgent;
    const std::string what = fact.has_rank ? RankTitle(fact.rank) + " on " + fact.name
                                           : (is_agent ? "the agent of " : "") + fact.name;
    return WithReason("a drill (" + fact.kind + ") strikes " + what, fact.reason);
  }
  std::string operator()(const MemoryShort& fact) const { return fact.name + " " + fact.reason; }
  std::string operator()(const JobResumed& fact) const { return fact.reason; }
  std::string operator()(const JobFinished& fact) const {
    return "the job has ended with exit code " + std::to_string(fact.exit_code) + ": " +
           fact.reason;
  }
};

struct Namer {
  std::string_view operator()(const JobCreated&) const { return "job_created"; }
  std::string_view operator()(const MasterTookOver&) const { return "master_took_over"; }
  std::string_view operator()(const PastRemembered&) const { return "past_remembered"; }
  std::string_view operator()(const NodeJoined&) const { return "node_joined"; }
  std::string_view operator()(const NodeLost&) const { return "node_lost"; }
  std::string_view operator()(const NodeNoticed&) const { return "node_noticed"; }
  std::string_view operator()(const AgentReturned&) const { return "agent_returned"; }
  std::string_view operator()(const NodeLeft&) const { return "node_left"; }
  std::string_view operator()(const NodeChecked&) const { return "node_checked"; }
  std::string_view operator()(const NodeEvicted&) const { return "node_evicted"; }
  std::string_view operator()(const RankFailed&) const { return "rank_failed"; }
  std::string_view operator()(const RecoveryDecided&) const { return "recovery_decided"; }
  std::string_view operator()(const WorldFormed&) const { return "world_formed"; }
  std::string_view operator()(const WorldRunning&) const { return "world_running"; }
  std::string_view operator()(const WorldEnded&) const { return "world_ended"; }
  std::string_view operator()(const SoloRestarted&) const { return "solo_restarted"; }
  std::string_view operator()(const ProgressMade&) const { return "progress_made"; }
  std::string_view operator()(const GrowthPlanned&) const { return "growth_planned"; }
  std::string_view operator()(const SizeChosen&) const { return "size_chosen"; }
  std::string_view operator()(const WaitBegan&) const { return "wait_began"; }
  std::string_view operator()(const StopDecided&) const { return "stop_decided"; }
  std::string_view operator()(const RestoreDecided&) const { return "restore_decided"; }
  std::string_view operator()(const CheckpointCommitted&) const { return "checkpoint_committed"; }
  std::string_view operator()(const CheckpointDamaged&) const { return "checkpoint_damaged"; }
  std::string_view operator()(const CheckpointNotStored&) const { return "checkpoint_not_stored"; }
  std::string_view operator()(const HangJudged&) const { return "hang_judged"; }
  std::string_view operator()(const HangEnded&) const { return "hang_ended"; }
  std::string_view operator()(const RankSlow&) const { return "rank_slow"; }
  std::string_view operator()(const RankNoLongerSlow&) const { return "rank_no_longer_slow"; }
  std::string_view operator()(const TimeAccounted&) const { return "time_accounted"; }
  std::string_view operator()(const LossWentBad&) const { return "loss_went_bad"; }
  std::string_view operator()(const ModelDescribed&) const { return "model_described"; }
  std::string_view operator()(const ParallelPlanChosen&) const { return "parallel_plan_chosen"; }
  std::string_view operator()(const WishChanged&) const { return "wish_changed"; }
  std::string_view operator()(const TasksPlaced&) const { return "tasks_placed"; }
  std::string_view operator()(const TasksScaled&) const { return "tasks_scaled"; }
  std::string_view operator()(const TablesMoved&) const { return "tables_moved"; }
  std::string_view operator()(const NodeCheckOrdered&) const { return "node_check_ordered"; }
  std::string_view operator()(const DrillStruck&) const { return "drill_struck"; }
  std::string_view operator()(const PairsJudged&) const { return "pairs_judged"; }
  std::string_view operator()(const MemoryShort&) const { return "memory_short"; }
  std::string_view operator()(const JobResumed&) const { return "job_resumed"; }
  std::string_view operator()(const JobFinished&) const { return "job_finished"; }
};

}  // namespace

std::string_view RungName(Rung rung) {
  switch (rung) {
    case Rung::kNone: return "none";
    case Rung::kRestartProcess: return "restart process";
    case Rung::kRestartNode: return "restart node";
    case Rung::kReplaceNode: return "replace node";
    case Rung::kShrink: return "shrink";
    case Rung::kWait: return "wait";
    case Rung::kStop: return "stop";
    case Rung::kMoveLayers: return "move layers";
    case Rung::kResize: return "resize";
    case Rung::kReplaceSlow: return "replace slow";
  }
  return "unknown";
}

std::string_view FactName(const Fact& fact) { return std::visit(Namer{}, fact); }

std::string Sentence(const Record& record, const WorldCount& worlds) {
  return std::visit(Teller{worlds}, record.fact);
}

std::string Sentence(const Record& record) { return Sentence(record, WorldCount()); }

}  // namespace paceline::core
