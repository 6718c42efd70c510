#include "paceline/cli/drill/live.h"

#include <signal.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/fd.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/drill/live_target.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/run_dir.h"

namespace paceline::cli {
namespace {

std::string CommandOf(const LiveKind& kind, const JobPlace& place) {
  return Concat("paceline drill ", kind.name, " ", NamedByFlag(place));
}

Problem NotStruck(const LiveKind& kind, const JobPlace& place, std::string why, std::string fix) {
  return {.code = "PL-E169",
          .what = Concat(place.id, " is not struck"),
          .where = CommandOf(kind, place),
          .why = std::move(why),
          .fix = std::move(fix)};
}

// The kind of the command line, if a live job can have it.
Result<const LiveKind*> KindOf(const ParsedLine& line) {
  const std::vector<std::string>& words = line.positionals;
  const auto usage = [&](std::string what, std::string why) {
    return Problem{.code = "PL-E010",
                   .what = std::move(what),
                   .where = "paceline drill --job " + ShellWord(line.Text("job")),
                   .why = std::move(why),
                   .fix = Concat("paceline drill KIND --job ID; the kinds are ", LiveKindNames())};
  };
  if (line.Has("all") || words.empty()) {
    return usage("a job that runs is struck by one kind", "a live job must not get every fault");
  }
  if (words.size() > 1) {
    return usage("a script stands beside --job", "the job that runs has its own script");
  }
  if (FindDrillKind(words.front()) == nullptr) return NoSuchKind(words.front());
  const LiveKind* kind = FindLiveKind(words.front());
  if (kind != nullptr) return kind;
  return Problem{.code = "PL-E168",
                 .what = words.front() + " cannot strike a job that runs",
                 .where = "paceline drill " + words.front(),
                 .why =
                     "it is more than a signal to a process of this host; the kinds that are "
                     "one: " +
                     LiveKindNames(),
                 .fix = Concat("one of these kinds, or rehearse it in a job of its own: paceline "
                               "drill ",
                               words.front())};
}

std::set<std::string> NodesHere(const JobPlace& place) {
  std::set<std::string> here;
  const auto card = ReadJobCard(place.run_dir);
  if (!card.ok()) return here;
  for (const std::string& node : card->nodes) {
    if (FindAgent(place.run_dir, node).pid > 0) here.insert(node);
  }
  return here;
}

// A process that is to be struck. Its number cannot become another process's while this is open.
struct Pinned {
  agent::ProcessId id;
  Fd fd;
};

class Strikes {
 public:
  // False: one of the processes has just ended.
  bool Pin(const LiveTarget& target, const agent::ProcessId& agent, DrillLoss loss) {
    for (const int32_t pid : target.rank_pids) {
      const agent::ProcessId id{pid, agent::StartTimeOf(pid)};
      ranks_.push_back({id, agent::OpenPidfd(id)});
      if (!ranks_.back().fd.is_open()) return false;
    }
    if (loss != DrillLoss::kAgent && loss != DrillLoss::kNode) return true;
    agent_ = {agent, agent::OpenPidfd(agent)};
    return agent_.fd.is_open();
  }

  // Returns why a process was not struck; "": all were.
  std::string Do(DrillLoss loss) const {
    switch (loss) {
      case DrillLoss::kAgent: return Send(agent_.id.pid, SIGKILL);
      case DrillLoss::kRank: return Send(ranks_.front().id.pid, SIGKILL);
      case DrillLoss::kStill: return Send(ranks_.front().id.pid, SIGSTOP);
      case DrillLoss::kNode: break;
    }
    // The agent first, which must not tell of its ranks' end.
    std::string why = Send(agent_.id.pid, SIGSTOP);
    if (!why.empty()) return why;
    for (const Pinned& rank : ranks_) agent::SignalGroup(rank.id, SIGKILL);
    return Send(agent_.id.pid, SIGKILL);
  }

 private:
  static std::string Send(pid_t pid, int signal) {
    if (::kill(pid, signal) == 0) return "";
    return Concat("process ", pid, ": ", std::strerror(errno));
  }

  std::vector<Pinned> ranks_;
  Pinned agent_;
};

struct LiveDrill {
  const LiveKind& kind;
  const JobPlace& place;
  LiveTarget target;
  std::string cost;
};

void Show(Output& out, const LiveDrill& drill, bool is_struck) {
  if (out.is_json()) {
    nlohmann::ordered_json json;
    json["schema"] = "paceline.live_drill/1";
    json["job"] = drill.place.id;
    json["kind"] = drill.kind.name;
    json["node"] = drill.target.node;
    json["rank"] = drill.target.rank.has_value() ? nlohmann::ordered_json(*drill.target.rank)
                                                 : nlohmann::ordered_json();
    json["cost"] = drill.cost;
    json["struck"] = is_struck;
    out.DataLine(PrintJson(json));
    return;
  }
  out.DataLine(Concat(is_struck ? "struck " : "would strike ",
                      Visible(TargetText(drill.target, drill.kind.loss)), " by ", drill.kind.name));
  if (is_struck) {
    out.Say("next: paceline why " + NamedByFlag(drill.place));
    return;
  }
  out.DataLine("cost: " + Visible(drill.cost));
  const DrillKind& expected = *FindDrillKind(drill.kind.name);
  out.DataLine(Concat("expected: found as ", expected.found, ", ",
                      expected.rung.empty() ? "only told" : expected.rung));
  out.Say(Concat("nothing was done; to do it: ", CommandOf(drill.kind, drill.place),
                 drill.target.rank.has_value() ? Concat(" --rank ", *drill.target.rank)
                                               : " --node " + ShellWord(drill.target.node),
                 " --yes"));
}

wire::DrillRequest RequestFor(const LiveKind& kind, const LiveTarget& target, bool is_dry) {
  return {.kind = std::string(kind.name),
          .loss = kind.loss,
          .node = target.node,
          .rank = target.rank,
          .dry_run = is_dry,
          .why = "paceline drill was typed"};
}

int StrikeOnce(Invocation& invocation, LiveDrill drill) {
  Output& out = invocation.out;
  const LiveKind& kind = drill.kind;
  const JobPlace& place = drill.place;
  Strikes strikes;
  const agent::ProcessId agent = FindAgent(place.run_dir, drill.target.node);
  if (!strikes.Pin(drill.target, agent, kind.loss)) {
    return out.Fail(NotStruck(kind, place, "the process to strike has just ended",
                              "paceline status says what became of it"));
  }
  if (!out.is_json()) out.Say("cost: " + Visible(drill.cost));
  // The record first: what follows must be known as a drill, whatever becomes of this command.
  const auto reply = AskToDrill(place, RequestFor(kind, drill.target, /*is_dry=*/false));
  if (!reply.ok()) return out.Fail(reply.problem());
  if (!reply->refusal.empty()) {
    return out.Fail(NotStruck(kind, place, reply->refusal, reply->fix));
  }
  const std::string failed = strikes.Do(kind.loss);
  if (!failed.empty()) {
    return out.Fail(NotStruck(kind, place,
                              "the drill is in the journal, but the signal was refused: " + failed,
                              "type it as the user who started the job"));
  }
  Show(out, drill, /*is_struck=*/true);
  return kExitDone;
}

}  // namespace

int DrillLiveJob(Invocation& invocation) {
  Output& out = invocation.out;
  const auto kind = KindOf(invocation.line);
  if (!kind.ok()) return out.Fail(kind.problem());
  const LiveKind& live = **kind;
  const auto place = JobOf(invocation, JobUse::kChange);
  if (!place.ok()) return out.Fail(place.problem());
  const auto status = StatusOf(*place, kStatusPatience);
  if (!status.ok()) return out.Fail(status.problem());
  if (!place->has_launcher() && live.loss != DrillLoss::kRank && live.loss != DrillLoss::kStill) {
    return out.Fail(NotStruck(live, *place,
                              "its launcher on this host has ended, and nothing "
                              "would start the agent again",
                              ResumeCommand(place->run_dir) + " takes over, then try again"));
  }
  LiveWish wish{.rank = {}, .node = invocation.line.Text("node")};
  if (invocation.line.Has("rank")) {
    wish.rank = static_cast<uint32_t>(invocation.line.Number("rank", 0));
  }
  auto target = ChooseTarget(*status, NodesHere(*place), live, wish);
  if (!target.ok()) return out.Fail(target.problem());
  const auto outlook = AskToDrill(*place, RequestFor(live, *target, /*is_dry=*/true));
  if (!outlook.ok()) return out.Fail(outlook.problem());
  if (!outlook->refusal.empty()) {
    return out.Fail(NotStruck(live, *place, Visible(outlook->refusal), Visible(outlook->fix)));
  }
  LiveDrill drill{
      .kind = live, .place = *place, .target = *std::move(target), .cost = outlook->cost};
  if (invocation.line.Has("yes")) return StrikeOnce(invocation, std::move(drill));
  Show(out, drill, /*is_struck=*/false);
  return kExitDone;
}

}  // namespace paceline::cli
