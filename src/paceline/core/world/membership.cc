#include "paceline/core/world/membership.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/base/mark.h"
#include "paceline/core/detect/detectors.h"
#include "paceline/core/finish.h"
#include "paceline/core/succession/former_worlds.h"
#include "paceline/core/tasks/tasks.h"
#include "paceline/core/world/admission.h"
#include "paceline/core/world/drill.h"
#include "paceline/core/world/node_check.h"
#include "paceline/core/world/pair_tests.h"
#include "paceline/core/world/ranks.h"
#include "paceline/core/world/wish.h"

namespace paceline::core {

namespace {

using Status = NodeState::Status;

void Hear(Turn& turn, NodeLink& link) {
  const Duration silent = turn.now() - link.last_heard;
  link.last_heard = turn.now();
  // While a world is waited for, it may have passed over a node that was silent for this long.
  // After a shorter silence there is nothing to do: a late beat must not cause a check of every
  // node.
  const Duration suspect = HeartbeatInterval(turn.state().spec) * kHeartbeatsSuspect;
  if (!turn.state().world && silent >= suspect) {
    turn.watch().dirty = true;
  }
}

// The state of a lost node's ranks is unknown without a connection. When the node registers again,
// it reports everything.
void ForgetRanksOfLost(Turn& turn, NodeId node) {
  NodeLink& link = turn.Link(node);
  const bool lost = turn.state().Find(node)->status == Status::kLost;
  if (lost && !link.connection) link.ranks.clear();
}

void Disconnect(Turn& turn, NodeId node, NodeLink& link) {
  CountConnection(turn, node, false);
  link.connection.reset();
  turn.watch().checkpoints.Forget(node);
  ForgetRanksOfLost(turn, node);
  link.disconnected_at = turn.now();
  turn.watch().dirty = true;
  turn.Rewatch(node);
}

void LoseNode(Turn& turn, const NodeState& node, std::string reason,
              std::vector<RecordSeq> causes) {
  NodeLink& link = turn.Link(node.id);
  const JobState& state = turn.state();
  MARK("node lost");
  if (link.connection) CountConnection(turn, node.id, false);
  const Incident& incident = state.incident.pending ? state.incident : state.last_incident;
  const auto& seats = state.last_world.seats;
  const bool in_that_world = node.seat < seats.size() && seats[node.seat].node == node.id;
  const bool explains = incident.cascade && incident.failure.value() != 0 && in_that_world &&
                        incident.blamed != node.id;
  if (explains) causes.push_back(incident.failure);
  causes.push_back(DrillBehind(state, node.id));
  turn.Emit(NodeLost{.node = node.id,
                     .name = node.name,
                     .silent_for = std::max(Duration(), turn.now() - link.last_heard),
                     .finished = link.done,
                     .explains = explains,
                     .reason = std::move(reason)},
            std::move(causes));
  ForgetNodeWatch(turn, node.id);
  ForgetRanksOfLost(turn, node.id);
  turn.TellSoon(node.id);
}

// A newer incarnation has replaced this one, so it must leave.
void SendAway(Turn& turn, NodeId id, const std::string& name) {
  NodeLink& link = turn.Link(id);
  const NodeRegistered asked{*link.connection, {.name = name, .incarnation = link.incarnation}};
  std::optional<RefuseNode> refusal = CheckWished(turn, asked);
  if (!refusal.has_value()) return;  // it leaves
  turn.Do(*std::move(refusal));
  Disconnect(turn, id, link);
}

// A node that was lost or sent away may take part again once it has no ranks.
void WelcomeBack(Turn& turn, NodeId id) {
  const NodeState* node = turn.state().Find(id);
  if (node->status != Status::kLost && !node->IsSentAway()) return;
  const NodeLink& link = turn.Link(id);
  if (!link.connection) return;
  if (IsFenced(turn.state(), node->name, link.incarnation)) {
    SendAway(turn, id, node->name);
    return;
  }
  if (HoldsRanks(link)) return;
  if (turn.state().phase == Phase::kStopping || turn.state().phase == Phase::kFinished) return;
  MARK("lost node returns");
  // Its data of now: a pod that replaces another one on the same host has another address.
  turn.Emit(NodeJoined{.node = id,
                       .name = node->name,
                       .boot_id = link.boot_id,
                       .address = link.address,
                       .slots = link.slots,
                       .returned = true,
                       .incarnation = link.incarnation},
            {node->cause});
  CountConnection(turn, id, true);
  TakeCheck(turn, id);
  turn.TellSoon(id);
  turn.Rewatch(id);
}

// A node may be judged lost when its last report is out. Any message shows that it lives. A node
// that was sent away only sends its final report.
void WelcomeFenced(Turn& turn, NodeId id) {
  const NodeLink& link = turn.Link(id);
  const bool is_lost = turn.state().Find(id)->status == Status::kLost;
  if (is_lost && link.carried_out >= link.told.generation) WelcomeBack(turn, id);
}

NodeJoined Joined(NodeId id, const NodeReport& report, bool returned) {
  return {.node = id,
          .name = report.name,
          .boot_id = report.boot_id,
          .address = report.address,
          .slots = report.slots,
          .returned = returned,
          .incarnation = report.incarnation};
}

// Accepts the stream and the agent's data.
void Admit(Turn& turn, NodeId id, const NodeRegistered& event) {
  const NodeReport& report = event.report;
  NodeLink& link = turn.Link(id);
  if (!link.connection) {
    link.connection = event.connection;
    CountConnection(turn, id, true);
  }
  link.connection = event.connection;
  link.registered = true;
  link.told_checkpoint = CheckpointOrder{};
  // The node must know that its final report is awaited.
  if (turn.state().phase == Phase::kStopping) turn.watch().checkpoints.Greet(id);
  turn.watch().checkpoints.Forget(id);  // reports from its older connection may be outdated
  link.gone = false;
  link.last_heard = turn.now();
  link.loop_delay = Duration();
  link.awaits_starter = false;
  // Assignments and contests of another agent do not apply to this one, which may even run on
  // another host.
  if (link.agent_incarnation != report.agent_incarnation || link.boot_id != report.boot_id) {
    link.told = Assignment{};
    link.rivals.clear();
    link.has_links_tested = false;
  }
  link.boot_id = report.boot_id;
  link.address = report.address;
  link.host = report.host;
  link.slots = report.slots;
  link.task_ports = report.task_ports;
  link.agent_incarnation = report.agent_incarnation;
  link.incarnation = report.incarnation;
  link.agent_pid = report.agent_pid;
  link.check = report.check;
  link.bulk = report.bulk;
  turn.watch().pairs.has_loss = true;  // of its former connection
  turn.TellSoon(id);
  turn.watch().dirty = true;
  turn.Do(AdmitNode{event.connection, id});
}

// The host was rebooted under a node with a seat: its processes are gone.
void NoteReboot(Turn& turn, const NodeState& node, const NodeReport& report) {
  NodeLink& link = turn.Link(node.id);
  MARK("host rebooted");
  link.ranks.clear();
  link.carried_out = Generation();
  LoseNode(turn, node, "was rebooted", {});
  link.connection.reset();  // its agent has ended; the next one's is not counted yet
  turn.Emit(Joined(node.id, report, true), {turn.state().last_seq});
}

// The node's next incarnation is here and replaces the state of the one before.
void TakeOver(Turn& turn, const NodeState& node, const NodeReport& report) {
  NodeLink& link = turn.Link(node.id);
  MARK("next incarnation came");
  link.ranks.clear();
  link.carried_out = Generation();
  if (node.IsMember()) LoseNode(turn, node, "was replaced", {});
  link.connection.reset();  // its agent has ended; the next one's is not counted yet
  turn.Emit(Joined(node.id, report, true), {turn.state().Find(node.id)->cause});
}

// An ended job stays ended, whatever its nodes still run.
void Remember(Turn& turn, const Memo& memo) {
  MARK("the platform remembers the past");
  turn.Emit(PastRemembered{memo}, {turn.state().last_seq});
  if (!memo.exit_code.has_value()) return;
  turn.Emit(JobFinished{.exit_code = *memo.exit_code,
                        .reason = memo.final_reason,
                        .step = std::max(int64_t{0}, memo.step_max)},
            {turn.state().last_seq});
}

}  // namespace

void OnMasterStarted(Turn& turn, const MasterStarted& event) {
  const bool is_next = event.term > turn.state().term;
  turn.Emit(
      MasterTookOver{event.incarnation, std::max(event.term, turn.state().term), event.history});
  for (const auto& [id, node] : turn.state().nodes) {
    NodeLink& link = turn.Link(id);
    link = NodeLink{};
    link.last_heard = turn.now();
    link.listens_since = turn.now();
    link.disconnected_at = turn.now();
  }
  turn.watch() = Watch{};
  turn.watch().check_all = true;
  if (event.history == History::kNone && event.memo.has_value()) Remember(turn, *event.memo);
  // Ranks report again only if they still run.
  turn.watch().step = turn.state().step_max;
  if (is_next) EndUnbegunWorld(turn);
  if (turn.state().phase == Phase::kFinished && event.resumes) ResumeEnded(turn);
  if (turn.state().phase == Phase::kFinished) {
    turn.Do(FinishJob{turn.state().exit_code, turn.state().final_reason});
  }
}

// Records that the node has another agent than before, which has adopted all its ranks.
void NoteReturn(Turn& turn, NodeId id, uint64_t former_agent) {
  const JobState& state = turn.state();
  const NodeLink& link = turn.Link(id);
  const NodeState& node = *state.Find(id);
  const bool is_other = former_agent != 0 && former_agent != link.agent_incarnation;
  if (!is_other || !state.world || node.status != Status::kSeated) return;
  uint32_t living = 0;
  for (const auto& [local, rank] : link.ranks) {
    const bool lives = rank.state != RankReport::State::kExited;
    if (lives && rank.generation == state.world->generation) ++living;
  }
  if (living < state.SeatOf(node).rank_count) return;  // their failure is recorded
  MARK("an agent is started again");
  turn.Emit(AgentReturned{.node = id, .name = node.name, .ranks = living},
            {state.world_seq, DrillBehind(state, id)});
}

void OnRegistered(Turn& turn, const NodeRegistered& event) {
  const NodeReport& report = event.report;
  if (!CheckReport(turn, event)) return;
  if (std::optional<RefuseNode> refusal = CheckWished(turn, event)) {
    turn.Do(*std::move(refusal));
    return;
  }
  const NodeState* node = turn.state().Find(report.name);
  if (!CheckIdentity(turn, event, node)) return;
  EndForgottenWorld(turn, node, report);
  const bool known = node != nullptr;
  const NodeId id = known ? node->id : NodeId(static_cast<uint32_t>(turn.state().nodes.size()) + 1);
  if (!known) turn.Emit(Joined(id, report, false));
  node = turn.state().Find(id);
  if (known && IsSuccessor(turn.state(), turn.Link(id), report)) {
    TakeOver(turn, *node, report);
  } else if (known && node->boot_id != report.boot_id && node->status == Status::kSeated) {
    NoteReboot(turn, *node, report);
  } else if (known && node->status == Status::kSpare &&
             (node->boot_id != report.boot_id || node->address != report.address ||
              node->slots != report.slots)) {
    turn.Emit(Joined(id, report, true));
  }
  const bool leaving =
      known && node->IsSentAway() && turn.Link(id).agent_incarnation == report.agent_incarnation;
  const uint64_t former_agent = turn.Link(id).agent_incarnation;
  Admit(turn, id, event);
  TakeWholeTruth(turn, id, report);
  NoteVanishedTasks(turn, id, report.generation);
  if (leaving) return;
  NoteReturn(turn, id, former_agent);
  WelcomeBack(turn, id);
  TakeCheck(turn, id);
  turn.Rewatch(id);
}

void OnReported(Turn& turn, const NodeReported& event) {
  const auto found = turn.links().find(event.node);
  if (found == turn.links().end() || found->second.connection != event.connection) {
    MARK("stale report");
    return;
  }
  NodeLink& link = found->second;
  Hear(turn, link);
  link.loop_delay = std::max(event.loop_delay, link.loop_delay * 7 / 8);
  if (std::exchange(link.awaits_starter, event.awaits_starter) != event.awaits_starter) {
    // The time of the imports does not count for the ranks.
    if (!event.awaits_starter) link.listens_since = turn.now();
    turn.Rewatch(event.node);
  }
  TakeNews(turn, event.node, {event.generation, event.store_port, event.ranks});
  WelcomeFenced(turn, event.node);
}

void OnHeard(Turn& turn, const NodesHeard& event) {
  for (const NodeId node : event.nodes) {
    const auto found = turn.links().find(node);
    if (found == turn.links().end() || !found->second.connection) continue;
    Hear(turn, found->second);
    WelcomeFenced(turn, node);
  }
}

void OnRankExited(Turn& turn, const RankExited& event) {
  const auto found = turn.links().find(event.node);
  if (found == turn.links().end() || found->second.connection != event.connection) return;
  Hear(turn, found->second);
  TakeNews(turn, event.node, {Generation(), 0, {event.rank}});
  WelcomeFenced(turn, event.node);
}

void OnDisconnected(Turn& turn, const NodeDisconnected& event) {
  const auto found = turn.links().find(event.node);
  if (found == turn.links().end() || found->second.connection != event.connection) return;
  Disconnect(turn, event.node, found->second);
}

void OnGone(Turn& turn, const NodeGone& event) {
  const NodeState* node = turn.state().Find(event.name);
  if (node == nullptr || !node->IsMember()) {
    OnGoneUnseen(turn, event);
    return;
  }
  NodeLink& link = turn.Link(node->id);
  const bool other_agent =
      event.agent_pid != 0 && link.agent_pid != 0 && event.agent_pid != link.agent_pid;
  const bool other_incarnation =
      event.incarnation.has_value() && link.registered && *event.incarnation != link.incarnation;
  if (other_agent || other_incarnation) {
    MARK("stale node gone");
    if (other_incarnation && *event.incarnation > link.incarnation) OnGoneUnseen(turn, event);
    return;
  }
  if (link.connection && event.agent_pid == 0 && !event.incarnation.has_value()) {
    // The stream may belong to the node's next agent; the end of the stream will tell.
    link.gone = true;
    return;
  }
  LoseNode(turn, *node, event.evidence.empty() ? "is gone" : event.evidence, {});
}

void GiveTimeBack(Turn& turn, Duration time) {
  for (auto& [id, link] : turn.links()) {
    link.last_heard = std::min(turn.now(), link.last_heard + time);
    link.disconnected_at = std::min(turn.now(), link.disconnected_at + time);
    const Instant started = std::max(link.listens_since, turn.state().phase_since);
    link.listens_since = std::min(turn.now(), started + time);  // see JudgeStart
    // Else that time would count as a sign of life in a contest for the name.
    for (Rival& rival : link.rivals) rival.since = std::min(turn.now(), rival.since + time);
  }
  GivePairsTime(time, &turn.watch().pairs);
}

void OnJournalCaughtUp(Turn& turn) {
  MARK("orders had to wait for the journal");
  Watch& watch = turn.watch();
  if (watch.journal_stalled_at.has_value())
    GiveTimeBack(turn, turn.now() - *watch.journal_stalled_at);
  watch.journal_stalled_at.reset();
  watch.check_all = true;
  watch.dirty = true;  // a world that passed it over for its silence may take it now
  for (auto& [id, link] : turn.links()) link.listens_since = turn.now();
}

void DetectLosses(Turn& turn) {
  Watch& watch = turn.watch();
  if (watch.journal_stalled_at.has_value()) return;
  if (watch.check_all) {
    for (const auto& [id, node] : turn.state().nodes) watch.checks.Set(id, turn.now());
    watch.check_all = false;
  }
  for (const NodeId id : watch.checks.Take(turn.now())) {
    const NodeState& node = *turn.state().Find(id);
    if (!node.IsMember()) continue;
    const Verdict verdict = turn.Judge(node);
    watch.checks.Set(id, verdict.until);
    if (verdict.kind == Verdict::Kind::kLost) LoseNode(turn, node, verdict.reason, {});
    if (verdict.kind == Verdict::Kind::kStuck) FailStuckRank(turn, id, verdict.reason);
    if (verdict.kind == Verdict::Kind::kSuspect) watch.dirty = true;
  }
}

}  // namespace paceline::core
