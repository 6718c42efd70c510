// `paceline goodput`: where the rank-seconds of the job went, from the journal of this host.

#include <algorithm>

#include "paceline/base/json.h"
#include "paceline/base/number_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/show/goodput_json.h"

namespace paceline::cli {
namespace {

constexpr size_t kIncidentsShown = 5;

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
  out.Rows(rows);
}

// How far the ranks' phases divide the steps.
void PrintPhases(Output& out, const core::GoodputReport& report) {
  constexpr double kNoted = 0.0005;  // of all time: what is printed as 0.1 %
  if (report.divided <= 0 && report.Of(core::TimeClass::kProductive) > 0) {
    out.DataLine(
        "The ranks told no phases, so evaluation, checkpoints and waiting for data are in "
        "productive.");
  }
  if (report.overcounted >= kNoted * report.allocated()) {
    out.DataLine(
        Concat("overcounted: ", RankTime(report.overcounted),
               ", which the ranks told beyond the time that there was; it is in no class"));
  }
}

void PrintMfu(Output& out, const core::MfuReport& mfu) {
  if (!mfu.ratio.has_value()) {
    out.DataLine(Concat("MFU unknown: ", Visible(mfu.unknown_because)));
    return;
  }
  out.DataLine(Concat("MFU ", ShareText(*mfu.ratio),
                      ": the model's arithmetic of the steps that count, of what the seated ranks' "
                      "devices could do at their peak"));
}

void PrintIncidents(Output& out, const TimeAccount& account) {
  const auto& incidents = account.report.incidents;
  if (incidents.empty()) {
    out.DataLine("No world of this job has ended before its time, and no hang was named.");
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
  PrintPhases(out, report);
  if (report.steps_executed > 0) {
    out.DataLine(Concat("steps of ended worlds: ", report.steps_executed, ", of which ",
                        report.steps_redone, " were repeated or lost"));
  }
  PrintMfu(out, report.mfu);
  PrintIncidents(out, account);
}

bool HasTasks(const std::vector<core::Record>& records) {
  return std::any_of(records.begin(), records.end(), [](const core::Record& record) {
    return std::holds_alternative<core::TasksPlaced>(record.fact);
  });
}

}  // namespace

int RunGoodput(Invocation& invocation) {
  Output& out = invocation.out;
  auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  auto records = RecordsFromJournal(*place);
  if (!records.ok()) return out.Fail(records.problem());
  if (HasTasks(*records)) {
    return out.Fail({.code = "PL-E142",
                     .what = "the time of a job of tasks is not measured",
                     .where = place->id,
                     .why = "goodput is that of a world, and the job has none",
                     .fix = "paceline tasks"});
  }
  const TimeAccount account = AccountOfTime(*records, WallNow());
  if (out.is_json()) {
    out.DataLine(PrintJson(GoodputJson(place->id, account)));
  } else {
    PrintGoodput(out, place->id, account);
  }
  return kExitDone;
}

}  // namespace paceline::cli
