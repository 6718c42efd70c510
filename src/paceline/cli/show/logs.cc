// `paceline logs`: what the ranks wrote, from the files of the run directory. It needs no master
// and no agent, so it works on jobs that ended long ago.

#include <poll.h>

#include <algorithm>
#include <map>
#include <set>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/show/log_files.h"
#include "paceline/model/task.h"

namespace paceline::cli {
namespace {

constexpr int kFollowPauseMilliseconds = 100;
constexpr int64_t kLinesByDefault = 40;

constexpr Flag kLogsFlags[] = {
    {.dest = "node", .spellings = {"--node"}, .metavar = "NAME", .help = "only this node"},
    {.dest = "rank",
     .spellings = {"--rank"},
     .kind = FlagKind::kInteger,
     .metavar = "N",
     .help = "only this rank",
     .minimum = 0},
    {.dest = "task", .spellings = {"--task"}, .metavar = "NAME", .help = "only this task: ps-1"},
    {.dest = "generation",
     .spellings = {"--generation"},
     .kind = FlagKind::kInteger,
     .metavar = "G",
     .help = "only the world of this generation; the newest one by default",
     .minimum = 1},
    {.dest = "lines",
     .spellings = {"-n", "--lines"},
     .kind = FlagKind::kInteger,
     .metavar = "N",
     .help = "last lines of each file, 40 by default",
     .minimum = 0},
    {.dest = "errors", .spellings = {"--errors"}, .kind = FlagKind::kSwitch, .help = "only stderr"},
    {.dest = "follow",
     .spellings = {"-f", "--follow"},
     .kind = FlagKind::kSwitch,
     .help = "print new lines as they come, over all worlds, until the job ends"},
};

LogSelection SelectionOf(const ParsedLine& line) {
  LogSelection selection;
  selection.node = line.Text("node");
  selection.rank = line.Number("rank", -1);
  if (const auto task = TaskOfName(line.Text("task"))) selection.rank = task->value();
  selection.generation = line.Number("generation", -1);
  selection.errors_only = line.Has("errors");
  return selection;
}

void PrintLine(Output& out, const LogFile& file, std::string_view text) {
  if (out.is_json()) {
    const nlohmann::ordered_json json = {
        {"schema", "paceline.log/1"},
        {"node", file.node},
        {"rank", file.rank},
        {"generation", WorldNumber(static_cast<uint64_t>(file.generation))},
        {"stream", file.is_error ? "stderr" : "stdout"},
        {"text", text}};
    out.DataLine(PrintJson(json));
    return;
  }
  const std::string prefix =
      Visible(file.node) + ":" + RankName(Rank(static_cast<uint32_t>(file.rank))) + "| ";
  out.Data(out.Painted(file.is_error ? Paint::kRed : Paint::kCyan, prefix));
  out.DataLine(Visible(text));
}

// Prints whole lines that were appended since the last call.
class Follower {
 public:
  Follower(Output& out, std::string root, LogSelection selection)
      : out_(out), root_(std::move(root)), selection_(std::move(selection)) {}

  // Prints the last `lines_max` existing lines; files of earlier worlds are left out.
  size_t Begin(int64_t lines_max) {
    for (const LogFile& file : FindLogFiles(root_, Everything())) {
      offsets_[file.path] = SizeOf(file.path);
    }
    const std::vector<LogFile> files = FindLogFiles(root_, selection_);
    for (const LogFile& file : files) {
      const LogText text =
          ReadLastLines(file.path, static_cast<size_t>(std::max<int64_t>(lines_max, 0)));
      for (const std::string& line : text.lines) PrintLine(out_, file, line);
      offsets_[file.path] = text.end;
    }
    return files.size();
  }

  void Look() {
    for (const LogFile& file : FindLogFiles(root_, Everything())) {
      uint64_t& offset = offsets_[file.path];
      const LogText text = ReadNewLines(file.path, offset);
      for (const std::string& line : text.lines) PrintLine(out_, file, line);
      offset = text.end;
    }
  }

 private:
  LogSelection Everything() const {
    LogSelection everything = selection_;
    everything.is_newest_only = false;
    return everything;
  }

  Output& out_;
  const std::string root_;
  const LogSelection selection_;
  std::map<std::string, uint64_t> offsets_;  // by path
};

// The ranks as a text: "0 to 3", or "0, 2, 5". Tasks have names instead: "chief-0, ps-0".
std::string NumbersText(const std::set<int64_t>& numbers) {
  std::string names;
  for (const int64_t number : numbers) {
    const Rank rank(static_cast<uint32_t>(number));
    if (IsTask(rank)) Append(&names, names.empty() ? "" : ", ", RankName(rank));
  }
  if (!names.empty()) return names;
  const bool is_range = numbers.size() > 2 && *numbers.rbegin() - *numbers.begin() + 1 ==
                                                  static_cast<int64_t>(numbers.size());
  if (is_range) return Concat(*numbers.begin(), " to ", *numbers.rbegin());
  std::string text;
  for (const int64_t number : numbers) Append(&text, text.empty() ? "" : ", ", number);
  return text;
}

// For a job that writes no more: what was asked for and is not there. None if there are no logs.
Check NoSuchLog(const std::string& root, const LogSelection& asked) {
  std::set<std::string> nodes;
  std::set<int64_t> ranks;
  std::set<int64_t> generations;
  for (const LogFile& file : FindLogFiles(root, {.is_newest_only = false})) {
    nodes.insert(file.node);
    ranks.insert(file.rank);
    generations.insert(static_cast<int64_t>(WorldNumber(static_cast<uint64_t>(file.generation))));
  }
  if (nodes.empty()) return std::nullopt;
  Problem problem{
      .code = "PL-E010",
      .what = "no output is of all that was asked for",
      .where = root,
      .why = Concat("there is output of: nodes ", Visible(JoinWith(nodes, ", ")), "; ranks ",
                    NumbersText(ranks), "; generations ", NumbersText(generations)),
      .fix = "leave one of the flags out"};
  if (!asked.node.empty() && !nodes.contains(asked.node)) {
    problem.what = Concat("there is no node ", Visible(asked.node));
  } else if (asked.rank >= 0 && !ranks.contains(asked.rank)) {
    const Rank rank(static_cast<uint32_t>(asked.rank));
    problem.what = IsTask(rank) ? "there is no such task" : Concat("there is no rank ", asked.rank);
  } else if (asked.generation >= 0 && !generations.contains(asked.generation)) {
    problem.what = Concat("there is no generation ", asked.generation);
  }
  return problem;
}

// A text that no task can have as its name.
Check NoTaskName(const std::string& root, const ParsedLine& line) {
  if (!line.Has("task") || TaskOfName(line.Text("task")).has_value()) return std::nullopt;
  return Problem{.code = "PL-E010",
                 .what = Concat("there is no task \"", Visible(line.Text("task")), "\""),
                 .where = root,
                 .why = "a task is named by its kind and its number: chief-0, worker-1, ps-0",
                 .fix = "paceline tasks shows the names"};
}

}  // namespace

FlagTable LogsFlags() { return kLogsFlags; }

int RunLogs(Invocation& invocation) {
  Output& out = invocation.out;
  const auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  const std::string root = LogRoot(place->run_dir);
  if (Check problem = NoTaskName(root, invocation.line)) return out.Fail(*problem);
  const bool follow = invocation.line.Has("follow");
  Follower follower(out, root, SelectionOf(invocation.line));
  const size_t found = follower.Begin(invocation.line.Number("lines", kLinesByDefault));
  if (found == 0 && !place->is_running()) {
    if (const Check problem = NoSuchLog(root, SelectionOf(invocation.line))) {
      return out.Fail(*problem);
    }
  }
  if (!follow) {
    if (found == 0) out.Say("no rank that matches has written yet; logs are in " + root);
    return kExitDone;
  }
  // If no process runs the job any more, no further lines will come.
  for (bool goes_on = true; goes_on && out.Flush();) {
    const auto now = ReadJobPlace(place->run_dir);
    goes_on = now.ok() && now->is_running();
    follower.Look();
    if (goes_on) poll(nullptr, 0, kFollowPauseMilliseconds);
  }
  return kExitDone;
}

}  // namespace paceline::cli
