// `paceline stacks`: where every rank is now. The master asks the agents, which examine their ranks
// as they do during a hang.

#include <algorithm>
#include <map>
#include <set>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/host_trouble.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/silent_master.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

constexpr Flag kStacksFlags[] = {
    {.dest = "rank",
     .spellings = {"--rank"},
     .kind = FlagKind::kInteger,
     .metavar = "N",
     .help = "only this rank",
     .minimum = 0},
};

// Longer than the master waits for the agents.
constexpr Duration kStacksPatience = Duration::Seconds(30);

struct RankStack {
  std::string node;
  RankEvidence seen;
};

std::string_view StackStateName(char state) {
  switch (state) {
    case 'T': return "stopped";
    case 't': return "held by a debugger";
    case 'R': return "runs";
    case 'D':
    case 'S': return "sleeps";
    default: return "unknown";
  }
}

std::string StackPhaseOf(const RankEvidence& seen) {
  const bool is_known = seen.has_ring && seen.phase != RankPhase::kUnknown;
  return is_known ? std::string(PhaseName(seen.phase)) : "";
}

// The state and the phase of a rank, as the heading of its stack shows them: "stopped, forward".
std::string StackHeadOf(const RankEvidence& seen) {
  std::string head(StackStateName(seen.state));
  if (!seen.waits_in.empty()) Append(&head, " in ", seen.waits_in);
  if (seen.stopped_child != 0)
    Append(&head, ", its child process ", seen.stopped_child, " stopped");
  const std::string phase = StackPhaseOf(seen);
  return phase.empty() ? head : Concat(head, ", ", phase);
}

std::string RankNumbersText(const std::vector<const RankStack*>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    const uint32_t first = ranks[i]->seen.rank.value();
    uint32_t last = first;
    for (++i; i < ranks.size() && ranks[i]->seen.rank.value() == last + 1; ++i) ++last;
    Append(&text, text.back() == ' ' ? "" : ", ", first);
    if (last > first) Append(&text, last == first + 1 ? ", " : "–", last);
  }
  return text;
}

// Ranks with equal frames are grouped, and ranks without frames by the reason.
void PrintStacks(Output& out, const std::vector<RankStack>& stacks) {
  std::map<std::string, std::vector<const RankStack*>> folded;
  std::vector<std::string> order;
  for (const RankStack& one : stacks) {
    std::string text;
    for (const StackFrame& frame : one.seen.stack) {
      Append(&text, "  ", frame.file, ":", frame.line, "  ", frame.function, "\n");
    }
    if (one.seen.stack.empty()) Append(&text, "  no stack: ", one.seen.no_stack, "\n");
    auto& ranks = folded[text];
    if (ranks.empty()) order.push_back(text);
    ranks.push_back(&one);
  }
  for (const std::string& text : order) {
    const std::vector<const RankStack*>& ranks = folded[text];
    std::set<std::string> heads;
    for (const RankStack* rank : ranks) heads.insert(StackHeadOf(rank->seen));
    std::string head = RankNumbersText(ranks);
    if (ranks.size() == 1) {
      Append(&head, " (pid ", ranks[0]->seen.pid, " on ", ranks[0]->node, ")");
    }
    if (heads.size() == 1) Append(&head, ": ", *heads.begin());
    out.DataLine(out.Painted(Paint::kBold, Visible(head)));
    for (const std::string_view line : SplitLines(text)) out.DataLine(Visible(line));
  }
}

std::string StacksJson(const JobPlace& place, const std::vector<RankStack>& stacks,
                       const std::vector<std::string>& silent) {
  nlohmann::ordered_json json;
  json["schema"] = "paceline.stacks/1";
  json["job"] = place.id;
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RankStack& one : stacks) {
    nlohmann::ordered_json rank;
    rank["rank"] = one.seen.rank.value();
    rank["node"] = one.node;
    rank["pid"] = one.seen.pid;
    rank["state"] = StackStateName(one.seen.state);
    rank["phase"] = StackPhaseOf(one.seen);
    rank["waits_in"] = one.seen.waits_in;
    rank["stopped_child"] = one.seen.stopped_child;
    rank["frames"] = nlohmann::ordered_json::array();
    for (const StackFrame& frame : one.seen.stack) {
      rank["frames"].push_back(
          {{"file", frame.file}, {"line", frame.line}, {"function", frame.function}});
    }
    rank["no_stack"] = one.seen.no_stack;
    json["ranks"].push_back(std::move(rank));
  }
  json["silent"] = silent;
  return PrintJson(json);
}

Problem NoStacksOf(const JobPlace& place) {
  if (!place.is_joined && HasAgents(place)) return NobodyLeads(place);
  return {.code = "PL-E030",
          .what = Concat("no process of ", place.id, " runs on this host"),
          .where = place.run_dir,
          .why = "only living ranks have a stack",
          .fix = "paceline why --evidence " + NamedByFlag(place)};
}

Result<wire::JobStacks> AskForStacks(const JobPlace& place) {
  if (!place.has_master() && !place.has_launcher()) return NoStacksOf(place);
  if (!place.has_master() && !place.is_joined) return MasterIsSilent(place);
  const auto problem_of = [&place](const absl::Status& status) {
    return IsAway(status) ? MasterIsSilent(place) : ProblemFrom(status);
  };
  // The stacks may take long, so a master that does not answer at all is found out first.
  const auto quick = ControlOptions(place, kFirstAnswerPatience);
  if (!quick.ok()) return quick.problem();
  const absl::Status answer = wire::ControlClient(*quick).GetStatus().status();
  if (!answer.ok()) return problem_of(answer);
  const auto options = ControlOptions(place, kStacksPatience);
  if (!options.ok()) return options.problem();
  auto stacks = wire::ControlClient(*options).GetStacks();
  if (!stacks.ok()) return problem_of(stacks.status());
  return *std::move(stacks);
}

}  // namespace

FlagTable StacksFlags() { return kStacksFlags; }

int RunStacks(Invocation& invocation) {
  Output& out = invocation.out;
  const auto place = JobOf(invocation, JobUse::kWatch);
  if (!place.ok()) return out.Fail(place.problem());
  const auto wanted = ParseInteger(invocation.line.Text("rank"));
  const auto job = AskForStacks(*place);
  if (!job.ok()) return out.Fail(job.problem());
  std::vector<RankStack> stacks;
  for (const wire::NodeStacks& node : job->nodes) {
    for (const RankEvidence& rank : node.ranks) {
      if (wanted.has_value() && *wanted != rank.rank.value()) continue;
      stacks.push_back({node.node, rank});
    }
  }
  std::sort(stacks.begin(), stacks.end(),
            [](const auto& a, const auto& b) { return a.seen.rank < b.seen.rank; });
  if (wanted.has_value() && stacks.empty()) {
    return out.Fail(
        {.code = "PL-E010",
         .what = Concat("rank ", *wanted, " has no process now"),
         .where = place->id,
         .why = "the job has no such rank, or that rank has ended, or its agent does not answer",
         .fix = "paceline status " + NamedByFlag(*place)});
  }
  if (out.is_json()) {
    out.DataLine(StacksJson(*place, stacks, job->silent));
    return kExitDone;
  }
  PrintStacks(out, stacks);
  if (stacks.empty()) out.Say("no rank has a process now");
  for (const std::string& node : job->silent) out.Say("no answer from " + Visible(node));
  return kExitDone;
}

}  // namespace paceline::cli
