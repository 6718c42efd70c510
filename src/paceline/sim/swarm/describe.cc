#include "paceline/sim/options.h"
#include "paceline/sim/world.h"

namespace paceline::sim {

std::string Describe(const Assignment& assignment) {
  std::string text;
  switch (assignment.kind) {
    case Assignment::Kind::kIdle: text = "idle"; break;
    case Assignment::Kind::kRun: text = "run"; break;
    case Assignment::Kind::kStop: text = "stop"; break;
    case Assignment::Kind::kLeave: text = "leave"; break;
  }
  text += " g" + ToString(assignment.generation);
  if (assignment.kind != Assignment::Kind::kRun) return text;
  return text + " seat " + std::to_string(assignment.seat) + "/" +
         std::to_string(assignment.seat_count) + " ranks from " +
         std::to_string(assignment.first_rank) + " of " + std::to_string(assignment.world_size);
}

static std::string ChecksText(const CheckOptions& checks) {
  if (!checks.is_used) return "";
  return checks.has_links ? " checks links" : " checks";
}

static std::string PhasesText(const PhaseOptions& phases) {
  if (!phases.is_told) return "";
  return " phases(evaluation=" + std::to_string(phases.evaluation) +
         " checkpoint=" + std::to_string(phases.checkpoint) +
         " data=" + std::to_string(phases.data) + ")";
}

static std::string MemoryText(const Options& options) {
  if (!options.memory.is_used) return "";
  return " memory=" + std::to_string(options.spec.memory_node >> 30) + "G.." +
         std::to_string(options.spec.memory_most >> 30) + "G";
}

std::string Describe(const Options& options) {
  const JobSpec& spec = options.spec;
  std::string text =
      "nodes=" + std::to_string(options.node_count) + "+" + std::to_string(options.late_node_count);
  text += " min=" + std::to_string(spec.nodes_min) + " max=" + std::to_string(spec.nodes_max);
  text += " unit=" + std::to_string(spec.unit) + " spares=" + std::to_string(spec.spares);
  text += " ranks=" + std::to_string(spec.nproc_per_node);
  text += options.local_platform ? " local" : " hosts";
  text += options.heartbeats_each ? " beats=each" : " beats=credited";
  text += " latency=" + ToString(options.link.latency_max);
  text += " loss=" + std::to_string(options.link.loss_permille);
  text += " dup=" + std::to_string(options.link.duplicate_permille);
  text += " reorder=" + std::to_string(options.link.reorder_permille);
  text += " fsync=" + ToString(options.fsync_max);
  text += " step=" + ToString(options.step_time);
  text += " save=" + std::to_string(options.checkpoint_every);
  if (options.saves.is_used) {
    const SaveOptions& saves = options.saves;
    text += " checkpointer(every=" + std::to_string(saves.every);
    if (saves.recount > 0) text += " recount=" + std::to_string(saves.recount);
    text += " keep=" + std::to_string(saves.terms.keep);
    text += " slots=" + std::to_string(saves.slots);
    text += saves.is_replica           ? (saves.says_replica ? " replicas" : " equal")
            : saves.has_own_parameters ? " stages"
                                       : " sharded";
    const PersistPolicy& policy = saves.terms.policy;
    if (policy.kind == PersistPolicy::Kind::kSteps)
      text += " steps=" + std::to_string(policy.steps);
    if (policy.kind == PersistPolicy::Kind::kTime) text += " time=" + ToString(policy.time);
    text += " write=" + ToString(saves.write_max) + " copy=" + ToString(saves.copy_max);
    if (saves.terms.replicas.has_value()) {
      text += " copies=" + std::to_string(*saves.terms.replicas);
    }
    if (saves.nodes_per_domain > 1) text += " racks";
    text += ")";
  }
  if (options.pace.is_told) {
    text += " pace(noise=" + std::to_string(options.pace.noise_permille);
    if (options.pace.slow_rank.has_value()) {
      text += " slow=" + std::to_string(*options.pace.slow_rank);
    }
    if (options.pace.slow_node.has_value()) {
      text += " slow_node=" + std::to_string(*options.pace.slow_node);
    }
    if (options.spec.slow_act == SlowAct::kReplace) text += " replaces";
    text += ")";
  }
  text += PhasesText(options.phases) + MemoryText(options) + ChecksText(options.checks);
  if (options.plan.is_used) {
    text += " plan(memory=";
    for (const uint64_t bytes : options.plan.memory) text += std::to_string(bytes >> 30) + "G";
    text += ")";
  }
  text += " total=" + std::to_string(options.total_steps) +
          (options.tells_steps ? " tells" : " counts");
  text += " chaos=" + ToString(options.chaos);
  text += " strikes=" + std::to_string(options.strikes.size());
  return text;
}

}  // namespace paceline::sim
