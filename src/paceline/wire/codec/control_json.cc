#include "paceline/wire/codec/control_json.h"

#include <cmath>

#include "paceline/base/json.h"

namespace paceline::wire {
namespace {

using Json = nlohmann::ordered_json;

Json NumberOrNull(const std::optional<double>& value) {
  return value.has_value() && std::isfinite(*value) ? Json(*value) : Json();
}
Json SecondsOrNull(const std::optional<Duration>& value) {
  return value.has_value() ? Json(value->ToSecondsF()) : Json();
}
// -1 means that the script did not report it.
Json StepOrNull(int64_t step) { return step < 0 ? Json() : Json(step); }
// Never 0: a signal to pid 0 would reach the caller's own process group.
Json PidOrNull(int32_t pid) { return pid <= 0 ? Json() : Json(pid); }
template <class T>
Json ValueOrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}
std::string Print(const Json& json, int indent) { return PrintJson(json, {.indent = indent}); }

Json ToJson(const RankStatus& rank) {
  return {{"rank", rank.rank},
          {"local_rank", rank.local_rank},
          {"pid", PidOrNull(rank.pid)},
          {"generation", WorldNumber(rank.generation)},
          {"state", rank.state},
          {"step", StepOrNull(rank.step)},
          {"step_count", rank.step_count},
          {"saved_step", StepOrNull(rank.saved_step)},
          {"loss", NumberOrNull(rank.loss)},
          {"exit", rank.exit.empty() ? Json() : Json(rank.exit)}};
}

Json ToJson(const NodeStatus& node) {
  Json ranks = Json::array();
  for (const RankStatus& rank : node.ranks) ranks.push_back(ToJson(rank));
  return {{"id", node.id},
          {"name", node.name},
          {"state", node.state},
          {"reason", node.reason},
          {"address", node.address},
          {"agent_pid", PidOrNull(node.agent_pid)},
          {"connected", node.connected},
          {"silent_ms", node.silent_for.milliseconds()},
          {"seat", ValueOrNull(node.seat)},
          {"generation", WorldNumber(node.generation)},
          {"ranks", std::move(ranks)}};
}

// Null until the script makes a Checkpointer.
Json ToJson(const CheckpointStatus& checkpoints) {
  if (checkpoints.directory.empty()) return nullptr;
  return {{"directory", checkpoints.directory},
          {"memory_step", StepOrNull(checkpoints.memory_step)},
          {"storage_step", StepOrNull(checkpoints.storage_step)},
          {"writing_step", StepOrNull(checkpoints.writing_step)},
          {"storage_bytes", checkpoints.storage_bytes},
          {"problem", checkpoints.problem},
          {"restored", checkpoints.restored},
          {"restored_step", StepOrNull(checkpoints.restored_step)},
          {"memory_restores", checkpoints.memory_restores},
          {"storage_restores", checkpoints.storage_restores},
          {"commits", checkpoints.commits},
          {"storage_age_seconds", SecondsOrNull(checkpoints.storage_age)}};
}

Json PlanJson(const PlanStatus& plan) {
  if (plan.generation == 0) return nullptr;
  return {{"generation", WorldNumber(plan.generation)},
          {"words", plan.words},
          {"sentence", plan.sentence},
          {"predicted_step_seconds", plan.step > 0 ? Json(plan.step) : Json()}};
}

Json ToJson(const TaskStatus& task) {
  return {{"name", task.name},
          {"node", task.node},
          {"state", task.state},
          {"restarts", task.restarts},
          {"age_seconds", task.age.ToSecondsF()},
          {"generation", WorldNumber(task.generation)},
          {"address", task.address},
          {"pid", PidOrNull(task.pid)},
          {"note", task.note}};
}

Json HangJson(const std::optional<HangStatus>& hang) {
  if (!hang.has_value()) return nullptr;
  return {{"seq", hang->seq}, {"ranks", hang->ranks}, {"sentence", hang->sentence}};
}

}  // namespace

std::string StatusJson(const JobStatus& status) {
  Json nodes = Json::array();
  for (const NodeStatus& node : status.nodes) nodes.push_back(ToJson(node));
  Json slow = Json::array();
  for (const SlowStatus& one : status.slow) {
    slow.push_back({{"ranks", one.ranks},
                    {"sentence", one.sentence},
                    {"excess", NumberOrNull(one.excess)},
                    {"cost", NumberOrNull(one.cost)},
                    {"is_data", one.is_data}});
  }
  Json json = {
      {"schema", "paceline.status/1"},
      {"job",
       {{"id", status.job_id},
        {"name", status.name},
        {"phase", status.phase},
        {"pending", status.pending},
        {"exit_code", ValueOrNull(status.exit_code)},
        {"final_reason", status.final_reason},
        {"age_seconds", status.age.ToSecondsF()},
        {"goodput", NumberOrNull(status.goodput)},
        {"restarts", status.restart_count},
        {"failures", status.failures},
        {"step", StepOrNull(status.step)},
        {"steps_per_second", NumberOrNull(status.steps_per_second)},
        {"since_step_seconds", SecondsOrNull(status.since_step)},
        {"steps_total", status.steps_total > 0 ? Json(status.steps_total) : Json()},
        {"loss", NumberOrNull(status.loss)},
        {"last_seq", status.last_seq},
        {"excluded_hosts", status.excluded_hosts},
        {"links", status.links}}},
      {"master",
       {{"pid", PidOrNull(status.master_pid)},
        {"incarnation", status.master_incarnation},
        {"journal", status.journal}}},
      {"world", {{"generation", WorldNumber(status.generation)}, {"size", status.world_size}}},
      {"checkpoints", ToJson(status.checkpoints)},
      {"slow", std::move(slow)},
      {"hang", HangJson(status.hang)},
      {"plan", PlanJson(status.plan)},
      {"nodes", std::move(nodes)}};
  if (!status.memory.empty()) json["memory"] = status.memory;
  for (const TaskStatus& task : status.tasks) json["tasks"].push_back(ToJson(task));
  // Generations may skip numbers; the count of worlds does not.
  json["world"]["number"] = status.generation == 0 ? 0 : status.restart_count + 1;
  return Print(json, 2);
}

std::string EventJson(const JobEvent& event) {
  Json json = {{"schema", "paceline.event/1"},
               {"seq", event.seq},
               {"time", static_cast<double>(event.time_ns) / 1e9},
               {"kind", event.kind},
               {"node", event.node.empty() ? Json() : Json(event.node)},
               {"rank", ValueOrNull(event.rank)},
               {"generation", event.generation == 0 ? Json() : Json(WorldNumber(event.generation))},
               {"step", ValueOrNull(event.step)},
               {"sentence", event.sentence},
               {"causes", event.causes},
               {"details", event.details}};
  if (!event.members.empty()) {
    Json members = Json::array();
    for (const WorldMember& member : event.members) {
      members.push_back({{"node", member.node},
                         {"seat", member.seat},
                         {"first_rank", member.first_rank},
                         {"ranks", member.ranks}});
    }
    json["members"] = std::move(members);
  }
  return Print(json, -1);
}

}  // namespace paceline::wire
