#include "paceline/cli/show/goodput_json.h"

#include <variant>

namespace paceline::cli {

TimeAccount AccountOfTime(const std::vector<core::Record>& records, Instant now) {
  TimeAccount account;
  core::GoodputLedger ledger;
  for (const core::Record& record : records) {
    ledger.Fold(record);
    account.is_over = std::holds_alternative<core::JobFinished>(record.fact);
  }
  account.report = ledger.At(now);
  for (const core::IncidentCost& incident : account.report.incidents) {
    for (const RecordSeq seq : {incident.cause, incident.world_ended}) {
      const uint64_t index = seq.value() - records.front().seq.value();
      if (seq.value() > 0 && index < records.size()) account.records[seq.value()] = &records[index];
    }
  }
  return account;
}

const core::Record* ToldRecord(const TimeAccount& account, const core::IncidentCost& incident) {
  for (const RecordSeq seq : {incident.cause, incident.world_ended}) {
    const auto it = account.records.find(seq.value());
    if (it != account.records.end()) return it->second;
  }
  return nullptr;
}

nlohmann::ordered_json GoodputJson(const std::string& job, const TimeAccount& account) {
  const core::GoodputReport& report = account.report;
  nlohmann::ordered_json json;
  json["schema"] = "paceline.goodput/1";
  json["job"] = job;
  json["is_over"] = account.is_over;
  json["rank_seconds"] = nlohmann::ordered_json::object();
  for (const core::TimeClassText& text : core::TimeClassTexts()) {
    json["rank_seconds"][std::string(text.name)] = report.Of(text.time_class);
  }
  json["divided_rank_seconds"] = report.divided;
  json["overcounted_rank_seconds"] = report.overcounted;
  json["runtime"] = report.runtime;
  json["scheduling"] = report.scheduling;
  json["steps_executed"] = report.steps_executed;
  json["steps_redone"] = report.steps_redone;
  json["mfu"] = nullptr;
  if (report.mfu.ratio.has_value()) json["mfu"] = *report.mfu.ratio;
  json["mfu_unknown_because"] = report.mfu.unknown_because;
  json["incidents"] = nlohmann::json::array();
  for (const core::IncidentCost& incident : report.incidents) {
    const core::Record* record = ToldRecord(account, incident);
    json["incidents"].push_back({{"event", record == nullptr ? 0 : record->seq.value()},
                                 {"rank_seconds", incident.slot_seconds},
                                 {"is_over", incident.is_over},
                                 {"sentence", record == nullptr ? "" : core::Sentence(*record)}});
  }
  return json;
}

}  // namespace paceline::cli
