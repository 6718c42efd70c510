// `paceline drill`: causes faults for real in small jobs, and compares what is found and decided
// with what must be.

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/console/tool.h"
#include "paceline/cli/drill/kinds.h"
#include "paceline/cli/drill/live.h"
#include "paceline/cli/drill/rehearsal.h"
#include "paceline/cli/drill/seen.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

// In place of the times until a hung rank is restarted: a drill must not take ten minutes.
constexpr Duration kActAfter = Duration::Seconds(2);
constexpr int64_t kDrillRanksMax = 64;

constexpr Flag kDrillFlags[] = {
    {.dest = "all",
     .spellings = {"--all"},
     .kind = FlagKind::kSwitch,
     .help = "every kind, one after the other, each in a small job of its own"},
    {.dest = "kernel_log",
     .spellings = {"--kernel-log"},
     .kind = FlagKind::kSwitch,
     .help = "xid_79 may write a line about a lost GPU into the kernel's log; watchers of this "
             "host see it, and may drain the host"},
    {.dest = "nproc_per_node",
     .spellings = {"--nproc-per-node"},
     .kind = FlagKind::kInteger,
     .metavar = "N",
     .help = "ranks of your own script on a node; 4 by default",
     .minimum = 2,
     .maximum = kDrillRanksMax},
    {.dest = "job",
     .spellings = {"--job"},
     .metavar = "ID|DIR",
     .help = "strike this job, which runs on this host; without --yes only say what that costs"},
    {.dest = "yes",
     .spellings = {"--yes"},
     .kind = FlagKind::kSwitch,
     .help = "with --job: do it, once"},
    {.dest = "rank",
     .spellings = {"--rank"},
     .kind = FlagKind::kInteger,
     .metavar = "N",
     .help = "with --job: the rank to strike; by default the highest of this host",
     .minimum = 0,
     .maximum = UINT32_MAX},
    {.dest = "node",
     .spellings = {"--node"},
     .metavar = "NAME",
     .help = "with --job: the node to strike; by default that of the highest rank of this host"},
    {.dest = "keep",
     .spellings = {"--keep"},
     .kind = FlagKind::kSwitch,
     .help = "keep the jobs' directories also if all went as expected"},
};

volatile bool drill_interrupted = false;
extern "C" void NoteInterrupt(int /*signal*/) { drill_interrupted = true; }

// The jobs are ended before this command is.
void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = NoteInterrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGHUP, &action, nullptr);
}

// ---- the request ----

// Flags of a live job that stand without it.
Check RefuseAlone(const ParsedLine& line) {
  for (const std::string_view flag : {"yes", "rank", "node"}) {
    if (!line.Has(flag)) continue;
    return Problem{.code = "PL-E010",
                   .what = Concat("--", flag, " has no job"),
                   .where = "paceline drill",
                   .why = "it is about a job that runs; without --job a drill has its own job",
                   .fix = "paceline drill KIND --job ID, or leave the flag out"};
  }
  return std::nullopt;
}

struct DrillRequest {
  std::vector<const DrillKind*> kinds;
  std::vector<std::string> own_script;
};

Result<DrillRequest> RequestOf(const ParsedLine& line) {
  DrillRequest request;
  const std::vector<std::string>& words = line.positionals;
  if (line.Has("all")) {
    if (!words.empty()) {
      return Problem{
          .code = "PL-E010",
          .what = "--all takes no kind and no script",
          .where = "paceline drill --all " + ShellWord(words.front()),
          .why = "it rehearses every kind in the drill's own job",
          .fix = Concat("paceline drill --all, or paceline drill ", ShellWord(words.front()))};
    }
    for (const DrillKind& kind : DrillKinds()) request.kinds.push_back(&kind);
    return request;
  }
  const DrillKind* kind = FindDrillKind(words.front());
  if (kind == nullptr) return NoSuchKind(words.front());
  request.kinds.push_back(kind);
  request.own_script.assign(words.begin() + 1, words.end());
  if (request.own_script.empty()) return request;
  const std::string& script = request.own_script.front();
  if (kind->strike == Strike::kJob) {
    return Problem{
        .code = "PL-E166",
        .what = Concat(kind->name, " cannot be caused in another script"),
        .where = Concat("paceline drill ", kind->name, " ", ShellWord(script)),
        .why = "what breaks is a part of the script: its loader, its calls or its loss",
        .fix = Concat("paceline drill ", kind->name, " rehearses it in a small job of its own")};
  }
  const bool is_readable = ::access(script.c_str(), R_OK) == 0;
  if (!is_readable || std::filesystem::is_directory(script)) {
    return Problem{.code = "PL-E008",
                   .what = "the script cannot be read: " + Visible(script),
                   .where = Concat("paceline drill ", kind->name, " ", ShellWord(script)),
                   .why = is_readable ? "it is a directory" : std::strerror(errno),
                   .fix = "the path of a Python file, relative to this directory"};
  }
  return request;
}

// ---- the stage ----

// A folder of this command's with the scripts. The path is short, because it has sockets.
Result<DrillStage> MakeStage(const Invocation& invocation, const DrillRequest& request) {
  const HostFacts facts = ReadHostFacts(invocation.environment);
  auto python = FindInterpreter(invocation.environment, invocation.settings, facts);
  if (!python.ok()) return python.problem();
  if (const Check problem = CheckInterpreter(*python, facts)) return *problem;
  const auto refuse = [](std::string where, std::string why, std::string fix) {
    return Problem{.code = "PL-E167",
                   .what = "no drill can be held on this host",
                   .where = std::move(where),
                   .why = std::move(why),
                   .fix = std::move(fix)};
  };
  if (!HasModule(*python, "torch")) {
    return refuse(*python, "the drills' job trains with torch, which is not installed there",
                  "pip install torch, or PACELINE_LAUNCH_PYTHON=PYTHON");
  }
  std::string dir = "/tmp/paceline-drill-XXXXXX";
  if (::mkdtemp(dir.data()) == nullptr) {
    return refuse("/tmp", Concat("no folder could be made: ", std::strerror(errno)),
                  "make room in /tmp, and let this user write there");
  }
  const auto copied = RunTool({*python, "-m", "paceline._drill", dir}, "", invocation.environment);
  if (!copied.ok()) return copied.problem();
  if (copied->exit_code != 0) {
    return refuse(dir, Concat("the scripts could not be copied: ", copied->err),
                  "install the wheel again: pip install --force-reinstall paceline");
  }
  DrillStage stage{.dir = dir,
                   .program = facts.binary_dir + "/paceline",
                   .environment = invocation.environment,
                   .cwd = request.own_script.empty() ? dir : facts.cwd,
                   .own_script = request.own_script,
                   .ranks = invocation.line.Number("nproc_per_node", kDrillRanks)};
  stage.environment["PACELINE_RUNTIME_DIR"] = dir + "/w";
  stage.environment["PACELINE_LAUNCH_PYTHON"] = *python;
  stage.environment["PACELINE_LAUNCH_KEEP_WARM"] = "60s";
  stage.environment["PACELINE_HANG_ACT_AFTER"] = FormatDuration(kActAfter);
  return stage;
}

// Ends the starters that were kept for the next drill.
void EndStarters(const DrillStage& stage) {
  for (const StarterPlace& starter : KnownStarters(stage.environment)) {
    if (IsPacelineProcess(starter.pid)) ::kill(starter.pid, SIGTERM);
  }
}

// ---- the table ----

struct DrillRow {
  const DrillKind& kind;
  std::string skipped;  // why; "": it was done
  Played played;
  std::string wrong;  // "": as expected
};

std::string WhySkipped(const DrillKind& kind, const ParsedLine& line) {
  if (kind.needs != Needs::kKernelLog) return "";
  if (::access("/dev/kmsg", R_OK | W_OK) != 0) {
    return "needs root, to write the kernel's log and read it";
  }
  return line.Has("kernel_log") ? "" : "writes into the kernel's log; ask for it by --kernel-log";
}

std::string FoundAndRung(std::string_view found, std::string_view rung) {
  if (found.empty()) return "nothing";
  return Concat(found, ", ", rung.empty() ? "only told" : rung);
}

std::string SecondsText(const std::optional<Duration>& time) {
  if (!time.has_value()) return "–";
  const int64_t tenths = (time->milliseconds() + 50) / 100;
  return Concat(tenths / 10, ".", tenths % 10, " s");
}

constexpr size_t kNameCells = 20;
constexpr size_t kPairCells = 36;
constexpr size_t kTimeCells = 9;

void PrintHeading(Output& out) {
  const std::string heading =
      Concat(Pad("kind", kNameCells), Pad("expected", kPairCells), Pad("seen", kPairCells),
             Pad("found", kTimeCells), "trains again");
  out.DataLine(out.Painted(Paint::kBold, heading));
}

void PrintRow(Output& out, const DrillRow& row) {
  const DrillKind& kind = row.kind;
  const std::string name = Pad(kind.name, kNameCells);
  const std::string expected = Pad(FoundAndRung(kind.found, kind.rung), kPairCells);
  if (!row.skipped.empty()) {
    out.DataLine(Concat(name, expected, "skipped: ", row.skipped));
    return;
  }
  const Seen& seen = row.played.seen;
  const std::string again =
      kind.rung.empty() && seen.rung.empty() ? "–" : SecondsText(seen.trained_after);
  out.DataLine(Concat(name, expected, Pad(FoundAndRung(seen.found, seen.rung), kPairCells),
                      Pad(SecondsText(seen.found_after), kTimeCells), again));
  if (!row.wrong.empty()) {
    out.DataLine(out.Painted(Paint::kRed, Concat("  wrong: ", Visible(row.wrong))));
  }
}

nlohmann::ordered_json SecondsJson(const std::optional<Duration>& time) {
  return time.has_value() ? nlohmann::ordered_json(time->ToSecondsF()) : nlohmann::ordered_json();
}

nlohmann::ordered_json RowJson(const DrillStage& stage, const DrillRow& row) {
  const DrillKind& kind = row.kind;
  const Seen& seen = row.played.seen;
  const std::string_view state =
      !row.skipped.empty() ? "skipped" : (row.wrong.empty() ? "as_expected" : "wrong");
  nlohmann::ordered_json json;
  json["kind"] = kind.name;
  json["what"] = kind.what;
  json["state"] = state;
  json["why"] = row.skipped + row.wrong;
  json["expected"] = {
      {"class", kind.found}, {"rung", kind.rung}, {"deadline_seconds", kind.deadline.ToSecondsF()}};
  json["seen"] = {{"class", seen.found},
                  {"rung", seen.rung},
                  {"node", seen.node},
                  {"rank", seen.rank.has_value() ? nlohmann::ordered_json(*seen.rank)
                                                 : nlohmann::ordered_json()},
                  {"found_seconds", SecondsJson(seen.found_after)},
                  {"trains_again_seconds", SecondsJson(seen.trained_after)}};
  json["simulated"] =
      kind.simulated.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(kind.simulated);
  json["run_dir"] = RunDirOfDrill(stage, kind);
  return json;
}

DrillRow Hold(const DrillStage& stage, const DrillKind& kind, const ParsedLine& line) {
  DrillRow row{.kind = kind, .skipped = WhySkipped(kind, line)};
  if (!row.skipped.empty()) return row;
  row.played = Rehearse(stage, kind, &drill_interrupted);
  row.wrong = row.played.trouble;
  // Before the strike there is nothing to compare.
  if (row.played.struck.time_ns == 0) return row;
  const std::string difference = Difference(kind, row.played.struck, row.played.seen);
  if (!difference.empty()) {
    row.wrong = row.wrong.empty() ? difference : Concat(difference, "; ", row.wrong);
  }
  return row;
}

void SayHeader(Output& out, const DrillStage& stage, size_t count) {
  out.Say(Concat("Each kind gets a job of its own, in ", stage.dir, ". Hung ranks are restarted ",
                 FormatDuration(kActAfter), " after they are named (hang.act_after)."));
  if (!stage.own_script.empty()) {
    out.Say(Concat("Your script runs for real in ", stage.cwd,
                   " and is stopped when it trains again: it may write checkpoints there."));
  }
  if (count > 1) out.Say(Concat(Counted(count, "kind"), "; this takes some minutes."));
}

struct DrillSum {
  size_t right = 0;
  size_t wrong = 0;
  size_t skipped = 0;

  void Add(const DrillRow& row) {
    ++(!row.skipped.empty() ? skipped : (row.wrong.empty() ? right : wrong));
  }
  int ExitCode() const { return wrong == 0 && right > 0 ? kExitDone : kExitFindings; }
};

int HoldAll(Invocation& invocation, const DrillRequest& request, const DrillStage& stage) {
  Output& out = invocation.out;
  SayHeader(out, stage, request.kinds.size());
  nlohmann::ordered_json json;
  json["schema"] = "paceline.drill/1";
  json["act_after_seconds"] = kActAfter.ToSecondsF();
  json["rows"] = nlohmann::json::array();
  if (!out.is_json()) PrintHeading(out);
  DrillSum sum;
  for (const DrillKind* kind : request.kinds) {
    if (drill_interrupted) break;
    const DrillRow row = Hold(stage, *kind, invocation.line);
    sum.Add(row);
    if (out.is_json()) {
      json["rows"].push_back(RowJson(stage, row));
    } else {
      PrintRow(out, row);
      out.Flush();
    }
  }
  EndStarters(stage);
  if (out.is_json()) {
    out.DataLine(PrintJson(json));
  } else {
    out.DataLine(
        Concat(sum.right, " as expected, ", sum.wrong, " wrong, ", sum.skipped, " skipped"));
  }
  if (sum.wrong > 0 || invocation.line.Has("keep")) {
    out.Say(Concat("`paceline why --job ", stage.dir, "/KIND/run` tells what each job recorded."));
  } else {
    std::error_code ignored;
    std::filesystem::remove_all(stage.dir, ignored);
  }
  return drill_interrupted ? int{kExitInterrupted} : sum.ExitCode();
}

int ListKinds(Output& out) {
  if (out.is_json()) {
    nlohmann::ordered_json json;
    json["schema"] = "paceline.drill_kinds/1";
    json["kinds"] = nlohmann::json::array();
    for (const DrillKind& kind : DrillKinds()) {
      json["kinds"].push_back({{"kind", kind.name}, {"what", kind.what}});
    }
    out.DataLine(PrintJson(json));
    return kExitDone;
  }
  std::vector<std::vector<std::string>> rows = {{"kind", "what happens", "expected", "simulated"}};
  for (const DrillKind& kind : DrillKinds()) {
    rows.push_back({std::string(kind.name), std::string(kind.what),
                    FoundAndRung(kind.found, kind.rung),
                    std::string(kind.simulated.empty() ? "–" : kind.simulated)});
  }
  out.Rows(rows);
  out.Say("paceline drill KIND rehearses one of them, paceline drill --all all of them.");
  return kExitDone;
}

}  // namespace

FlagTable DrillFlags() { return kDrillFlags; }

int RunDrill(Invocation& invocation) {
  Output& out = invocation.out;
  if (invocation.line.Has("job")) return DrillLiveJob(invocation);
  if (const Check problem = RefuseAlone(invocation.line)) return out.Fail(*problem);
  const bool is_list = invocation.line.positionals.empty() && !invocation.line.Has("all");
  if (is_list) return ListKinds(out);
  const auto request = RequestOf(invocation.line);
  if (!request.ok()) return out.Fail(request.problem());
  const auto stage = MakeStage(invocation, *request);
  if (!stage.ok()) return out.Fail(stage.problem());
  CatchInterrupts();
  return HoldAll(invocation, *request, *stage);
}

}  // namespace paceline::cli
