#include "paceline/cli/show/why_json.h"

#include <vector>

#include "paceline/agent/agent_files.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/cli/show/failure_class.h"
#include "paceline/wire/codec/control_json.h"

namespace paceline::cli {
namespace {

nlohmann::ordered_json EventsJson(const std::vector<wire::JobEvent>& events) {
  auto json = nlohmann::ordered_json::array();
  for (const wire::JobEvent& event : events) {
    json.push_back(ParseOrderedJson(wire::EventJson(event)));
  }
  return json;
}

}  // namespace

std::string TracebackOf(const std::string& run_dir, const wire::JobEvent& failure) {
  const std::string path = run_dir + "/errors/" + failure.node + "/g" +
                           std::to_string(failure.generation) + "-rank" +
                           std::to_string(failure.rank.value_or(0)) + ".json";
  return JsonText(ParseJson(ReadText(path, agent::kErrorRecordBytesMax)), "traceback");
}

nlohmann::ordered_json WhyJson(const std::string& job, const Explanation& why,
                               const Account& account, const std::string& traceback) {
  nlohmann::ordered_json json;
  json["schema"] = "paceline.why/1";
  json["job"] = job;
  json["seq"] = why.event.seq;
  json["kind"] = why.event.kind;
  json["sentence"] = why.event.sentence;
  json["cause"] = account.cause.has_value() ? nlohmann::ordered_json(account.cause->seq)
                                            : nlohmann::ordered_json();
  const auto known =
      why.first_fault.has_value() ? ClassOf(*why.first_fault) : std::optional<FailureClass>();
  json["class"] = nullptr;
  if (known.has_value()) {
    json["class"] = {{"name", known->name}, {"role", known->role}, {"advice", known->advice}};
  }
  json["drill"] =
      why.drill.has_value() ? nlohmann::ordered_json(why.drill->seq) : nlohmann::ordered_json();
  json["evidence"] = EventsJson(why.evidence);
  json["outcome"] = EventsJson(why.outcome);
  json["tried"] = EventsJson(why.tried);
  json["follow_ons"] = why.follow_ons;
  json["cost_seconds"] = why.cost.has_value() ? nlohmann::ordered_json(why.cost->ToSecondsF())
                                              : nlohmann::ordered_json();
  json["traceback"] =
      traceback.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(traceback);
  json["now"] = account.now;
  json["next"] = why.next;
  return json;
}

}  // namespace paceline::cli
