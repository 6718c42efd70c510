#include "paceline/cli/submit/elastic_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "paceline/base/json_field.h"
#include "paceline/base/text.h"

namespace paceline::cli {
namespace {

using PlainStatus = nlohmann::json;

constexpr int64_t kNodesSeenMax = 200'000;

const PlainStatus& FieldOf(const PlainStatus& object, const char* name) {
  static const PlainStatus kNothing = PlainStatus::object();
  if (!object.is_object()) return kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

void ReadConditions(const PlainStatus& conditions, ElasticJobSeen* job) {
  if (!conditions.is_array()) return;
  std::string master;  // why the master does not run
  std::string rest;
  for (const PlainStatus& condition : conditions) {
    if (!condition.is_object()) continue;
    const std::string type = JsonText(condition, "type");
    const bool is_true = JsonText(condition, "status") == "True";
    const std::string message = JsonText(condition, "message");
    if (is_true && (type == "Complete" || type == "Failed")) {
      job->has_ended = true;
      job->end_reason = message;
    }
    if (type == "MasterReady" && !is_true) master = message;
    if (type == "Running") job->is_running = is_true;
    if ((type == "Running" && !is_true) || (type == "Suspended" && is_true)) rest = message;
  }
  job->wait_reason = master.empty() ? rest : master;
}

void ReadIncarnations(const PlainStatus& seen, ElasticJobSeen* job) {
  const int64_t below = std::clamp<int64_t>(JsonInt<int64_t>(seen, "below"), 0, kNodesSeenMax);
  for (int64_t index = 0; index < below; ++index) {
    job->incarnations[static_cast<uint32_t>(index)] = 0;
  }
  for (const auto& [text, number] : FieldOf(seen, "incarnations").items()) {
    const auto index = ParseWhole<uint32_t>(text);
    if (!index.has_value() || !number.is_number_unsigned()) continue;
    job->incarnations[*index] = number.get<uint32_t>();
  }
}

}  // namespace

ElasticJobSeen ReadElasticJob(const PlainStatus& job) {
  ElasticJobSeen seen;
  const PlainStatus& status = FieldOf(job, "status");
  if (!status.is_object()) return seen;
  seen.state = JsonText(status, "state");
  seen.master_term = JsonInt<int64_t>(status, "masterTerm");
  seen.history = JsonText(status, "history");
  seen.step = ParseWhole<int64_t>(JsonText(status, "step")).value_or(-1);
  if (FieldOf(status, "exitCode").is_number_integer()) {
    seen.exit_code = JsonInt<int>(status, "exitCode");
  }
  seen.has_ended = !JsonText(status, "finishedAt").empty();
  ReadConditions(FieldOf(status, "conditions"), &seen);
  ReadIncarnations(FieldOf(status, "seen"), &seen);
  return seen;
}

wire::JobStatus PlainStatusOf(const ElasticJobSeen& job, const std::string& name) {
  wire::JobStatus status{.job_id = name,
                         .phase = job.has_ended    ? "finished"
                                  : job.is_running ? "running"
                                                   : "waiting",
                         .pending = job.wait_reason,
                         .step = job.step};
  if (!job.has_ended) return status;
  status.exit_code = job.exit_code;
  status.final_reason = job.end_reason;
  return status;
}

JobPlace KeptPlaceOf(const ElasticJobSeen& job, const std::string& on, const std::string& name) {
  JobPlace place;
  place.id = name;
  place.on = on;
  auto history = std::make_shared<wire::KeptHistory>();
  auto kept = wire::HistoryFromText(job.history);
  if (!job.history.empty() && kept.ok()) {
    *history = *std::move(kept);
  } else {
    history->status = PlainStatusOf(job, name);
  }
  place.kept = std::move(history);
  return place;
}

}  // namespace paceline::cli
