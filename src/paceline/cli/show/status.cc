// `paceline status`: a summary, or all fields as JSON.

#include <algorithm>

#include "paceline/base/instant.h"
#include "paceline/base/json.h"
#include "paceline/base/number_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/host_trouble.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/silent_master.h"
#include "paceline/cli/show/node_note.h"
#include "paceline/model/task.h"
#include "paceline/wire/codec/control_json.h"

namespace paceline::cli {
namespace {

std::string Percent(double share) {
  const int tenths = static_cast<int>(share * 1000 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

std::string StepText(int64_t step) { return step < 0 ? "-" : std::to_string(step); }

// True if the status was read from the journal, because no master answered.
bool IsFromJournal(const wire::JobStatus& status) {
  return status.phase != "finished" && status.master_pid == 0;
}

Paint PaintOf(const wire::JobStatus& status) {
  if (IsFromJournal(status)) return Paint::kYellow;
  if (status.phase == "running") return Paint::kGreen;
  if (status.phase != "finished") return Paint::kYellow;
  return status.exit_code.value_or(0) == 0 ? Paint::kGreen : Paint::kRed;
}

std::string NodeState(const wire::NodeStatus& node, bool has_master, bool is_over) {
  const bool is_member = node.state == "seated" || node.state == "spare";
  if (is_over && is_member) return "ended";
  return has_master && is_member && !node.connected ? node.state + " (away)" : node.state;
}

// "0-3"; of a job of tasks those that are there now, as "chief-0, ps-0". Its nodes also report
// tasks that they had before.
std::string WorkOf(const wire::NodeStatus& node, const std::vector<uint32_t>& ranks,
                   const wire::JobStatus& status) {
  if (status.tasks.empty()) return RankRanges(ranks);
  std::vector<std::string> names;
  for (const wire::TaskStatus& task : status.tasks) {
    if (task.node == node.name && task.state != "ended") names.push_back(Visible(task.name));
  }
  return JoinWith(names, ", ");
}

void PrintNodes(Output& out, const wire::JobStatus& status) {
  std::vector<std::vector<std::string>> rows = {
      {"NODE", "STATE", "AGENT", "RANKS", "STEP", "NOTE"}};
  const bool has_master = status.master_pid > 0;
  const bool is_over = status.phase == "finished";
  for (const wire::NodeStatus& node : status.nodes) {
    std::vector<uint32_t> ranks;
    int64_t step = -1;
    int64_t steps_of_world = 0;
    for (const wire::RankStatus& rank : node.ranks) {
      ranks.push_back(rank.rank);
      step = std::max(step, rank.step);
      steps_of_world = std::max<int64_t>(steps_of_world, rank.step_count);
    }
    rows.push_back(
        {Visible(node.name), NodeState(node, has_master, is_over),
         node.agent_pid > 0 ? std::to_string(node.agent_pid) : "-", WorkOf(node, ranks, status),
         step < 0 && steps_of_world > 0 ? Concat(steps_of_world, " in this world") : StepText(step),
         NodeNote(node, status)});
  }
  if (rows.size() > 1) out.Rows(rows);
}

void PrintCheckpoints(Output& out, const wire::CheckpointStatus& status) {
  if (status.directory.empty()) return;
  std::string text = "  checkpoints  in memory step " + StepText(status.memory_step) +
                     "  in storage step " + StepText(status.storage_step);
  if (status.storage_age.has_value()) text += " (" + ToString(*status.storage_age) + " old)";
  if (status.writing_step >= 0) text += "  writing step " + StepText(status.writing_step);
  out.DataLine(ClipTo(text + "  " + Visible(status.directory), out.width()));
  if (status.problem.empty()) return;
  out.DataLine("  " + out.Painted(Paint::kYellow, "checkpoints: " + Visible(status.problem)));
}

// "  8.1 steps/s  last step 200 ms ago  900 of 1200 steps left, about 1 min 51 s"; "" if no step is
// known.
std::string PaceText(const wire::JobStatus& status) {
  if (status.phase != "running") return "";
  std::string text;
  const double pace = status.steps_per_second;
  if (pace > 0) {
    // Slow steps are told by their time: "12.5 s a step".
    text += pace >= 1 ? "  " + FixedText(pace, 1) + " steps/s"
                      : "  " + FixedText(1 / pace, 1) + " s a step";
  }
  if (status.since_step.has_value()) {
    text += "  last step " + ToString(*status.since_step) + " ago";
  }
  const int64_t left = status.steps_total - status.step;
  if (status.steps_total <= 0 || status.step < 0 || left < 0) return text;
  text += "  " + std::to_string(left) + " of " + std::to_string(status.steps_total) + " steps left";
  constexpr double kYear = 365.0 * 24 * 3600;
  const double seconds = pace > 0 ? static_cast<double>(left) / pace : kYear;
  if (seconds < kYear) {
    text += ", about " + ToString(Duration::Seconds(static_cast<int64_t>(seconds)));
  }
  return text;
}

// For a host that joined: it has no journal, so it shows of an ended job only the end.
void PrintEnd(Output& out, const JobPlace& place, const wire::JobStatus& status) {
  out.DataLine(Concat(Visible(status.job_id), "  ", out.Painted(PaintOf(status), status.phase)));
  out.DataLine(ClipTo("  " + Visible(status.final_reason), out.width()));
  out.DataLine(Concat("  exit code ", status.exit_code.value_or(0),
                      place.kept != nullptr
                          ? "  the cluster has kept nothing else of the job"
                          : "  this host joined: the master's host has the job's history"));
}

// `silence`: how long no master has answered; "": it answers, or the job has ended.
void Print(Output& out, const wire::JobStatus& status, const std::string& silence) {
  std::string head = Visible(status.job_id) + "  " + out.Painted(PaintOf(status), status.phase) +
                     "  step " + StepText(status.step);
  if (status.generation > 0) {
    head += "  world " + std::to_string(status.restart_count + 1) + " of " +
            std::to_string(status.world_size) + " ranks";
  }
  out.DataLine(head + "  age " + ToString(status.age));
  const std::string sentence = status.final_reason.empty() ? status.pending : status.final_reason;
  if (!silence.empty()) out.DataLine("  " + out.Painted(Paint::kYellow, silence));
  const std::string when = silence.empty() ? "  " : "  before that: ";
  if (!sentence.empty()) out.DataLine(ClipTo(when + Visible(sentence), out.width()));
  // No step of a task is counted, so no time of it is known to be useful.
  std::string facts = status.tasks.empty() ? "  goodput " + Percent(status.goodput) : "";
  facts += "  restarts " + std::to_string(status.restart_count) + "  failures " +
           std::to_string(status.failures);
  if (status.exit_code.has_value()) facts += "  exit code " + std::to_string(*status.exit_code);
  if (status.phase != "finished") {
    facts += status.master_pid > 0 ? "  master " + std::to_string(status.master_pid)
                                   : std::string("  no master answers: this is from the journal");
  }
  out.DataLine(facts);
  if (const std::string pace = PaceText(status); !pace.empty()) out.DataLine(pace);
  if (status.journal != "ok" && !status.journal.empty()) {
    out.DataLine("  " + out.Painted(Paint::kYellow, "journal: " + Visible(status.journal)));
  }
  if (status.plan.generation > 0) {
    out.DataLine(
        ClipTo("  plan " + Visible(status.plan.words) + " (paceline plan --show)", out.width()));
  }
  for (const wire::SlowStatus& slow : status.slow) {
    out.DataLine("  " + out.Painted(Paint::kYellow, Visible(slow.sentence)));
  }
  for (const std::string& sentence : status.memory) {
    out.DataLine("  " + out.Painted(Paint::kYellow, Visible(sentence)));
  }
  if (!status.excluded_hosts.empty()) {
    std::string hosts;
    for (const std::string& host : status.excluded_hosts) {
      hosts += (hosts.empty() ? "" : ", ") + Visible(host);
    }
    out.DataLine("  " + out.Painted(Paint::kYellow, "excluded hosts: " + hosts));
  }
  for (const std::string& link : status.links) {
    out.DataLine("  " + out.Painted(Paint::kYellow, Visible(link)));
  }
  PrintCheckpoints(out, status.checkpoints);
  PrintNodes(out, status);
}

// With what only this host knows.
std::string StatusJsonHere(const wire::JobStatus& status,
                           const std::vector<std::string>& troubles) {
  nlohmann::ordered_json json = ParseOrderedJson(wire::StatusJson(status));
  json["troubles"] = troubles;
  return PrintJson(json, {.indent = 2});
}

}  // namespace

int RunStatus(Invocation& invocation) {
  Output& out = invocation.out;
  auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  const auto status = StatusOf(*place, kStatusPatience);
  if (!status.ok()) return out.Fail(status.problem());
  std::vector<std::string> troubles = HostTroubles(*place, status->phase == "finished");
  const std::string silence = IsFromJournal(*status) ? SilenceText(*place) : "";
  const auto print_troubles = [&] {
    for (const std::string& trouble : troubles) {
      out.DataLine("  " + out.Painted(Paint::kYellow, trouble));
    }
  };
  if (out.is_json()) {
    if (!silence.empty()) troubles.insert(troubles.begin(), silence);
    out.DataLine(StatusJsonHere(*status, troubles));
  } else if (status->last_seq == 0 && status->phase == "finished") {
    PrintEnd(out, *place, *status);
    print_troubles();
  } else {
    Print(out, *status, silence);
    print_troubles();
    if (IsFromJournal(*status)) {
      out.Say("next: " + MasterComesText(*place));
    } else if (status->hang.has_value() || status->restart_count > 0 ||
               status->exit_code.value_or(0) != 0) {
      out.Say("next: paceline why " + NamedByFlag(*place));
    }
  }
  return kExitDone;
}

}  // namespace paceline::cli
