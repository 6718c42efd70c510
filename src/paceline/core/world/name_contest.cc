#include "paceline/core/world/name_contest.h"

#include <algorithm>
#include <string>

#include "paceline/base/mark.h"
#include "paceline/core/detect/detectors.h"

namespace paceline::core {
namespace {

// Agents that are remembered for one name; the oldest is forgotten first.
constexpr size_t kRivalsMax = 4;

struct Contest {
  const NodeState& node;
  const NodeLink& link;
  const NodeReport& report;
  Duration proof;   // if the owner is heard so long after another one asked, both are alive
  Duration silent;  // the owner's silence
  bool same_host = false;
};

Contest Look(Turn& turn, const NodeReport& report, const NodeState& node) {
  const NodeLink& link = turn.Link(node.id);
  // A new master knows the former hosts only from its journal.
  const std::string& boot_id = link.registered ? link.boot_id : node.boot_id;
  return {.node = node,
          .link = link,
          .report = report,
          .proof = SilenceLimitMin(turn.state().spec, link.loop_delay),
          .silent = std::max(Duration(), turn.now() - link.last_heard),
          .same_host = boot_id == report.boot_id};
}

// An agent on the same host that was started earlier, but lives, is not outdated: it is another
// process. Only its registration is late.
bool IsOlder(const Contest& contest) {
  return contest.link.connection && contest.same_host &&
         contest.report.agent_incarnation < contest.link.agent_incarnation;
}

// The silence of the owner after which the asking agent gets the name. A host with the owner's
// address and another boot id is the same host, rebooted. The old agent is dead then, so two missed
// beats are enough. Any other host may be a second one of the same name, and waits until the owner
// counts as lost.
Duration Limit(Turn& turn, const Contest& contest) {
  if (!contest.same_host && contest.node.address == contest.report.address) {
    MARK("a rebooted host proves it by its address");
    return SuspectAfter(turn.state().spec, contest.link.loop_delay);
  }
  return SilenceLimit({turn.state(), contest.node, contest.link, turn.watch()});
}

// Last, because the limit is costly to compute and all nodes register with a new master.
bool IsHeld(Turn& turn, const Contest& contest, ConnectionId asking) {
  const NodeLink& link = contest.link;
  const bool same_agent =
      contest.same_host && link.agent_incarnation == contest.report.agent_incarnation;
  if (same_agent || link.gone || link.connection == asking) return false;
  if (!link.connection && (contest.same_host || !contest.node.IsMember())) return false;
  return contest.silent < Limit(turn, contest);
}

// Returns true if the owner of the name still sent messages long after this agent first asked for
// the name. Then both are alive.
bool IsOutlived(NodeLink& link, const Contest& contest, Instant now) {
  const NodeReport& report = contest.report;
  for (const Rival& rival : link.rivals) {
    if (rival.agent_incarnation != report.agent_incarnation || rival.boot_id != report.boot_id) {
      continue;
    }
    return link.last_heard - rival.since >= contest.proof;
  }
  if (link.rivals.size() == kRivalsMax) link.rivals.erase(link.rivals.begin());
  link.rivals.push_back({report.agent_incarnation, report.boot_id, now});
  return false;
}

void SayWhoOnOneHost(const Contest& contest, bool older, RefuseNode& refusal) {
  const NodeLink& link = contest.link;
  refusal.what = "another agent already runs node " + contest.report.name;
  refusal.why = "process " + std::to_string(link.agent_pid) + " of the same host, " +
                contest.node.address + ", " +
                (older ? "was started later than this one"
                       : "was heard " + ToString(contest.silent) + " ago");
  refusal.fix = "stop it, or give this one another --node-name";
}

void SayWhoOnOtherHost(Turn& turn, const Contest& contest, RefuseNode& refusal) {
  const std::string& address = contest.node.address;
  refusal.what = "another host already has the node name " + contest.report.name;
  refusal.why = contest.link.registered
                    ? "the agent at " + address + " was heard " + ToString(contest.silent) + " ago"
                    : "the agent at " + address + " may still come back to this master, which is " +
                          ToString(contest.silent) + " old";
  refusal.why += ", and this one, at " + contest.report.address + ", has another boot id";
  refusal.fix = "give one of the two hosts another --node-name";
  if (!refusal.retry) return;
  refusal.fix += "; a host that was rebooted is taken in once its old agent has been silent for " +
                 ToString(Limit(turn, contest));
}

}  // namespace

std::optional<RefuseNode> ContestName(Turn& turn, const NodeRegistered& event,
                                      const NodeState& node) {
  const Contest contest = Look(turn, event.report, node);
  const bool older = IsOlder(contest);
  if (!older && !IsHeld(turn, contest, event.connection)) return std::nullopt;
  const bool outlived = IsOutlived(turn.Link(node.id), contest, turn.now());
  // An owner without a stream may be about to give the name up.
  const bool for_good = older || (outlived && contest.link.connection);
  RefuseNode refusal;
  refusal.connection = event.connection;
  refusal.code = "PL-E037";
  refusal.retry = !for_good;
  if (contest.same_host) {
    MARK("second agent refused");
    SayWhoOnOneHost(contest, older, refusal);
  } else {
    MARK("second host refused");
    SayWhoOnOtherHost(turn, contest, refusal);
  }
  if (for_good) MARK("name refused for good");
  return refusal;
}

}  // namespace paceline::core
