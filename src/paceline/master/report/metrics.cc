#include "paceline/master/report/metrics.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "paceline/base/number_text.h"

namespace paceline::master {
namespace {

class MetricsPage {
 public:
  // Writes a metric family's header; its samples follow.
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = "paceline_" + std::string(name);
    text_ += "# TYPE " + name_ + " " + std::string(type) + "\n";
    text_ += "# HELP " + name_ + " " + std::string(help) + "\n";
    suffix_ = type == "counter" ? "_total" : "";
  }
  void Sample(double value, std::string_view labels = {}) {
    text_ += name_ + suffix_;
    if (!labels.empty()) text_ += "{" + std::string(labels) + "}";
    text_ += " " + NumberText(value) + "\n";
  }
  void Gauge(std::string_view name, double value, std::string_view help) {
    Family(name, "gauge", help);
    Sample(value);
  }
  void Counter(std::string_view name, double value, std::string_view help) {
    Family(name, "counter", help);
    Sample(value);
  }
  std::string Finish() { return std::move(text_) + "# EOF\n"; }

 private:
  std::string text_;
  std::string name_;
  std::string suffix_;
};

void AddJob(const wire::JobStatus& status, MetricsPage* page) {
  page->Family("phase", "gauge", "1 for the phase that the job is in.");
  for (const std::string_view phase : {"waiting", "starting", "running", "stopping", "finished"}) {
    page->Sample(status.phase == phase ? 1 : 0, "phase=\"" + std::string(phase) + "\"");
  }
  page->Gauge("generation", static_cast<double>(status.generation),
              "Generation of the current world; 0 between worlds.");
  page->Gauge("world_ranks", status.world_size, "Ranks of the current world.");
  page->Gauge("step", static_cast<double>(status.step), "Highest step known; -1 before the first.");
  page->Gauge(
      "goodput_ratio", status.goodput,
      "Share of the seated ranks' time since the first world in which new steps were made.");
  page->Counter("restarts", status.restart_count, "Worlds formed after the first.");
  page->Counter("failures", status.failures, "Failures charged to the restart budget.");

  std::map<std::string, int> nodes = {
      {"seated", 0}, {"spare", 0}, {"lost", 0}, {"left", 0}, {"evicted", 0}};
  std::map<std::string, int> ranks = {
      {"starting", 0}, {"running", 0}, {"stepping", 0}, {"exited", 0}};
  for (const wire::NodeStatus& node : status.nodes) {
    ++nodes[node.state];
    for (const wire::RankStatus& rank : node.ranks) ++ranks[rank.state];
  }
  page->Family("nodes", "gauge", "Nodes by state.");
  for (const auto& [state, count] : nodes) page->Sample(count, "state=\"" + state + "\"");
  size_t slow = 0;
  double cost = 0;
  for (const wire::SlowStatus& one : status.slow) {
    slow += one.ranks.size();
    cost = std::max(cost, one.cost);
  }
  page->Gauge("slow_ranks", static_cast<double>(slow),
              "Ranks whose own work takes longer than their peers'.");
  page->Gauge("slow_cost_ratio", cost, "Share of the speed that the slowest of them costs.");
  page->Family("ranks", "gauge", "Ranks by state.");
  for (const auto& [state, count] : ranks) page->Sample(count, "state=\"" + state + "\"");
}

void AddCheckpoints(const wire::CheckpointStatus& status, MetricsPage* page) {
  page->Gauge("checkpoint_memory_step", static_cast<double>(status.memory_step),
              "Newest step that every rank of the world has in memory; -1 for none.");
  page->Gauge("checkpoint_storage_step", static_cast<double>(status.storage_step),
              "Newest step whose checkpoint is complete in storage; -1 for none.");
  page->Gauge("checkpoint_storage_bytes", static_cast<double>(status.storage_bytes),
              "Size of the newest checkpoint in storage.");
  page->Gauge("checkpoint_writing", status.writing_step >= 0 ? 1 : 0,
              "1 while a checkpoint is on its way to storage.");
  page->Gauge("checkpoint_ok", status.problem.empty() ? 1 : 0,
              "0 if the last step that was due did not reach storage.");
  page->Counter("checkpoint_commits", status.commits, "Checkpoints that reached storage.");
  page->Gauge("checkpoint_restored_step", static_cast<double>(status.restored_step),
              "Step after which the newest world went on; -1 if it began at step 0.");
  page->Family("checkpoint_restores", "counter",
               "Worlds that went on from a checkpoint, by where it was.");
  page->Sample(status.memory_restores, "from=\"memory\"");
  page->Sample(status.storage_restores, "from=\"storage\"");
}

}  // namespace

std::string MetricsText(const wire::JobStatus& status, const Counters& counters) {
  MetricsPage page;
  AddJob(status, &page);
  AddCheckpoints(status.checkpoints, &page);
  page.Gauge("agents_connected", static_cast<double>(counters.agents_connected),
             "Agents with an admitted stream.");
  page.Gauge("journal_ok", status.journal == "ok" ? 1 : 0,
             "0 while the journal cannot be written and decisions wait.");
  page.Gauge("effects_waiting", static_cast<double>(counters.effects_waiting),
             "Effects whose records are not yet durable.");
  page.Counter("journal_failures", static_cast<double>(counters.journal_failures),
               "Commits that the disk refused.");
  page.Counter("records", static_cast<double>(counters.records), "Records decided.");
  page.Counter("events", static_cast<double>(counters.events), "Events that the loop handled.");
  page.Counter("heartbeats", static_cast<double>(counters.heartbeats), "Heartbeats heard.");
  page.Counter("effects", static_cast<double>(counters.effects), "Effects decided.");
  page.Counter("decision_seconds", counters.step_time.ToSecondsF(), "Time spent deciding.");
  page.Gauge("decision_seconds_max", counters.step_time_max.ToSecondsF(),
             "Longest single decision of this master.");
  return page.Finish();
}

}  // namespace paceline::master
