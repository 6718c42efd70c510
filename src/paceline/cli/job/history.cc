// `paceline history`: what earlier runs measured of the sizes of their jobs.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/find_job.h"
#include "paceline/cli/job/run_dir.h"
#include "paceline/cli/job/size_curve.h"
#include "paceline/master/clock.h"
#include "paceline/master/history/history_file.h"

namespace paceline::cli {
namespace {

constexpr uint32_t kRunsShown = 200;

constexpr Flag kHistoryFlags[] = {
    {.dest = "all",
     .spellings = {"--all"},
     .kind = FlagKind::kSwitch,
     .help = "with forget: the runs of every name"},
};

Problem Unreadable(const std::string& place, const absl::Status& status) {
  return {.code = "PL-E250",
          .what = "the history cannot be used",
          .where = place,
          .why = std::string(status.message()),
          .fix =
              "jobs run without it; move the file away to begin a new one, or set another "
              "folder: [history] place"};
}

// A curve in one line, as "1: 0.0713 s, 2: 0.0521 s": numbers of nodes, and seconds a step.
std::string SpeedsText(const std::vector<SizeSpeed>& curve) {
  std::string text;
  for (const SizeSpeed& speed : curve) {
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%.4g s", speed.step_seconds);
    text += Concat(text.empty() ? "" : ", ", speed.nodes, ": ", seconds);
  }
  return text;
}

std::string AgeOf(const JobHistory& run, Instant now) {
  const Duration age = now - Instant::FromNanoseconds(run.at_ms * 1'000'000);
  return age < Duration::Seconds(1) ? "under 1 s" : ToString(age);
}

void ShowRuns(const std::vector<JobHistory>& runs, Output& out) {
  if (out.is_json()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const JobHistory& run : runs) {
      list.push_back({{"run", run.run},
                      {"name", run.name},
                      {"signature", run.signature},
                      {"device", run.device},
                      {"at_ms", run.at_ms},
                      {"shares_batch", run.shares_batch},
                      {"curve", CurveJson(run.curve)}});
    }
    out.DataLine(PrintJson(
        nlohmann::ordered_json{{"schema", "paceline.history/1"}, {"runs", std::move(list)}}));
    return;
  }
  if (runs.empty()) {
    out.DataLine("no run was measured yet");
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "MEASURED", "SCRIPT", "SECONDS A STEP BY NODES", "HOST"}};
  const Instant now = master::Clock::WallNow();
  for (const JobHistory& run : runs) {
    rows.push_back({Visible(run.name), AgeOf(run, now) + " ago", run.signature.substr(0, 8),
                    SpeedsText(run.curve), Visible(run.device)});
  }
  out.Rows(rows);
}

}  // namespace

FlagTable HistoryFlags() { return kHistoryFlags; }

int RunHistory(Invocation& invocation) {
  Output& out = invocation.out;
  const std::vector<std::string>& words = invocation.line.positionals;
  if (!words.empty() && words[0] != "forget") {
    return out.Fail({.code = "PL-E001",
                     .what = "history has no action \"" + Visible(words[0]) + "\"",
                     .where = "paceline history",
                     .why = "its only action is forget",
                     .fix = "paceline history, or paceline history forget NAME"});
  }
  const bool is_all = invocation.line.Has("all");
  if (!words.empty() && is_all == (words.size() > 1)) {
    return out.Fail({.code = "PL-E001",
                     .what = is_all ? "history forget got a name and --all"
                                    : "history forget does not say which runs",
                     .where = "paceline history forget",
                     .why = "what is forgotten cannot be brought back",
                     .fix = "paceline history forget NAME, or paceline history forget --all"});
  }
  const std::string place = HistoryPlace(invocation.settings.Text("history.place"),
                                         invocation.environment, CurrentDirectory());
  if (place.empty()) {
    return out.Fail({.code = "PL-E250",
                     .what = "no history is kept",
                     .where = "[history] place",
                     .why = "it is off, or neither HOME nor XDG_STATE_HOME is set",
                     .fix = "set a folder: PACELINE_HISTORY_PLACE=DIR"});
  }
  auto file = master::HistoryFile::OpenExisting(place);
  if (absl::IsNotFound(file.status())) {
    if (words.empty()) {
      ShowRuns({}, out);
    } else {
      out.DataLine("there is nothing to forget");
    }
    return kExitDone;
  }
  if (!file.ok()) return out.Fail(Unreadable(place, file.status()));
  if (words.empty()) {
    const auto runs = file->Newest("", kRunsShown);
    if (!runs.ok()) return out.Fail(Unreadable(place, runs.status()));
    ShowRuns(*runs, out);
    return kExitDone;
  }
  const auto count = file->Forget(words.size() > 1 ? words[1] : "");
  if (!count.ok()) return out.Fail(Unreadable(place, count.status()));
  out.DataLine(Concat("forgot ", Counted(static_cast<size_t>(*count), "run")));
  return kExitDone;
}

}  // namespace paceline::cli
