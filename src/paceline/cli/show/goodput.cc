// `paceline goodput`: where the rank-seconds of the job went, from the journal of this host.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "paceline/base/json.h"
#include "paceline/base/number_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/core/goodput/ledger.h"

namespace paceline::cli {
namespace {

constexpr size_t kIncidentsShown = 5;

struct TimeAccount {
  core::GoodputReport report;
  bool is_over = false;
  std::map<uint64_t, const core::Record*> records;  // the causes of the incidents, by seq
};

TimeAccount AccountOfTime(const std::vector<core::Record>& records) {
  TimeAccount account;
  core::GoodputLedger ledger;
  Instant end = WallNow();
  for (const core::Record& record : records) {
    ledger.Fold(record);
    account.is_over = std::holds_alternative<core::JobFinished>(record.fact);
  }
  if (!records.empty()) end = std::max(end, records.back().at);
  account.report = ledger.At(end);
  for (const core::IncidentCost& incident : account.report.incidents) {
    for (const RecordSeq seq : {incident.cause, incident.world_ended}) {
      const uint64_t index = seq.value() - records.front().seq.value();
      if (seq.value() > 0 && index < records.size()) account.records[seq.value()] = &records[index];
    }
  }
  return account;
}

// The record that a person should read about an incident: its first cause, if the journal has it.
const core::Record* ToldRecord(const TimeAccount& account, const core::IncidentCost& incident) {
  for (const RecordSeq seq : {incident.cause, incident.world_ended}) {
    const auto it = account.records.find(seq.value());
    if (it != account.records.end()) return it->second;
  }
  return nullptr;
}

std::string ShareText(double part) { return FixedText(part * 100, 1) + " %"; }

// Slot-seconds as rank-time: "3 h 12 min".
std::string RankTime(double slot_seconds) {
  return ToString(Duration::Milliseconds(static_cast<int64_t>(slot_seconds * 1000)));
}

void PrintClasses(Output& out, const core::GoodputReport& report) {
  std::vector<std::vector<std::string>> rows = {{"RANK TIME", "SHARE", "", "SPENT ON"}};
  const double all = report.allocated();
  for (const core::TimeClassText& text : core::TimeClassTexts()) {
    const double part = report.Of(text.time_class);
    if (part <= 0) continue;
    rows.push_back(
        {RankTime(part), ShareText(part / all), std::string(text.words), std::string(text.hint)});
  }
  out.Data(Table(rows, out.width()));
}

void PrintIncidents(Output& out, const TimeAccount& account) {
  const auto& incidents = account.report.incidents;
  if (incidents.empty()) {
    out.DataLine("No world of this job has ended before its time.");
    return;
  }
  out.DataLine(Concat("Costliest of ", Counted(incidents.size(), "incident"), ":"));
  for (size_t i = 0; i < std::min(incidents.size(), kIncidentsShown); ++i) {
    const core::Record* record = ToldRecord(account, incidents[i]);
    const std::string seq = record == nullptr ? "" : ToString(record->seq);
    const std::string cost =
        RankTime(incidents[i].slot_seconds) + (incidents[i].is_over ? "" : ", not over yet");
    const std::string sentence = record == nullptr ? "" : Visible(core::Sentence(*record));
    out.DataLine(ClipTo(Concat("  ", cost, "  ", sentence, "  (paceline why ", seq, ")"), 0));
  }
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
  json["runtime"] = report.runtime;
  json["scheduling"] = report.scheduling;
  json["steps_executed"] = report.steps_executed;
  json["steps_redone"] = report.steps_redone;
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

void PrintGoodput(Output& out, const std::string& job, const TimeAccount& account) {
  const core::GoodputReport& report = account.report;
  if (report.allocated() <= 0) {
    out.DataLine(Visible(job) + ": no node has joined yet, so there is no time to account for");
    return;
  }
  out.DataLine(Concat(Visible(job), "  ", ShareText(report.runtime),
                      " of the seated ranks' time was productive (ETTR); ",
                      ShareText(report.scheduling), " of the wanted seats were taken"));
  PrintClasses(out, report);
  if (report.steps_executed > 0) {
    out.DataLine(Concat("steps of ended worlds: ", report.steps_executed, ", of which ",
                        report.steps_redone, " were repeated or lost"));
  }
  PrintIncidents(out, account);
}

}  // namespace

int RunGoodput(Invocation& invocation) {
  Output& out = invocation.out;
  auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  auto records = RecordsFromJournal(*place);
  if (!records.ok()) return out.Fail(records.problem());
  const TimeAccount account = AccountOfTime(*records);
  if (out.is_json()) {
    out.DataLine(PrintJson(GoodputJson(place->id, account)));
  } else {
    PrintGoodput(out, place->id, account);
  }
  return kExitDone;
}

}  // namespace paceline::cli
