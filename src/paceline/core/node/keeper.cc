#include "paceline/core/node/keeper.h"

#include <algorithm>
#include <utility>

#include "paceline/core/finish.h"

namespace paceline::core {
namespace {

// A child that lived this long had started well, so its death does not count as a repetition.
constexpr Duration kLivedWell = Duration::Seconds(5);
// After so many quick exits in a row a child counts as unable to run, for example because of a bad
// flag or an unwritable directory. A child that was killed is restarted without limit.
constexpr uint32_t kExitsAtOnceMax = 5;
// If a master that has run before exits right after each start, its disk may be full. The ranks go
// on meanwhile, so the launcher starts it again for this long before it gives the job up.
constexpr Duration kOutagePatience = Duration::Seconds(600);
// Time between an agent's ordered exit and the job's end, which other hosts can delay.
constexpr Duration kEndPatience = Duration::Seconds(30);
// Exit codes that another attempt cannot change.
constexpr int kExitUsage = 2;

}  // namespace

Keeper::Keeper(KeeperPlan plan) : plan_(std::move(plan)) {
  for (const std::string& node : plan_.nodes) agents_[node];
}

std::vector<KeeperAction> Keeper::Step(Instant now, const KeeperEvent& event) {
  Actions actions;
  if (std::holds_alternative<KeepStarted>(event)) {
    StartAll(now);
  } else if (std::holds_alternative<MasterUp>(event)) {
    master_.state = Child::State::kUp;
    if (!std::exchange(agents_begun_, true)) StartAgents(now);
  } else if (const auto* master = std::get_if<MasterExited>(&event)) {
    OnMasterExited(now, *master, &actions);
  } else if (const auto* up = std::get_if<AgentUp>(&event)) {
    auto found = agents_.find(up->node);
    if (found != agents_.end()) {
      found->second.state = Child::State::kUp;
    }
  } else if (const auto* agent = std::get_if<AgentExited>(&event)) {
    OnAgentExited(now, *agent, &actions);
  } else if (const auto* link = std::get_if<LauncherLinked>(&event)) {
    is_linked_ = link->is_linked;
  } else if (const auto* counted = std::get_if<RanksCounted>(&event)) {
    OnRanksCounted(now, *counted, &actions);
  } else if (const auto* wanted = std::get_if<NodeWanted>(&event)) {
    OnWanted(now, *wanted);
  } else if (std::holds_alternative<JobEnded>(event)) {
    has_ended_ = true;
  }
  OnTime(now, &actions);
  return actions;
}

void Keeper::OnWanted(Instant now, const NodeWanted& event) {
  auto found = agents_.find(event.node);
  if (found == agents_.end() || has_ended_) return;
  Child& agent = found->second;
  agent.wanted = std::max(agent.wanted, event.incarnation);
  if (agent.state != Child::State::kGone || agent.wanted == agent.started) return;
  agent.state = Child::State::kDown;
  agent.due = now;
}

void Keeper::StartAll(Instant now) {
  if (plan_.has_master) {
    master_.due = now;
  } else {
    StartAgents(now);
  }
}

void Keeper::StartAgents(Instant now) {
  for (auto& [node, agent] : agents_) agent.due = now;
}

void Keeper::OnMasterExited(Instant now, const MasterExited& event, Actions* actions) {
  if (has_ended_) {
    master_.state = Child::State::kDone;
    return;
  }
  if (event.by_itself && event.code == 0) {
    master_.state = Child::State::kDone;
    actions->push_back(ReadJobEnd{});
    return;
  }
  if (event.by_itself && (event.code == kExitUsage || event.code == kExitNotAuthorised)) {
    master_.state = Child::State::kDone;
    actions->push_back(GiveUp{event.code, "the master cannot run"});
    return;
  }
  const Duration delay = DelayAfterDeath(now, event.was_killed, &master_);
  if (event.by_itself && MasterIsHopeless(now)) {
    master_.state = Child::State::kDone;
    actions->push_back(GiveUp{event.code, "the master ends right after each start"});
    return;
  }
  master_.state = Child::State::kDown;
  master_.due = now + delay;
  if (master_.deaths_at_once < kExitsAtOnceMax) {
    actions->push_back(KeeperNote{"The master died; starting it again from its journal."});
  } else if (master_.deaths_at_once == kExitsAtOnceMax) {
    actions->push_back(KeeperNote{
        "The master ends right after each start; logs/master.log says why. It is started again "
        "for up to ten minutes, and the ranks go on without it."});
  }
}

bool Keeper::MasterIsHopeless(Instant now) const {
  if (master_.deaths_at_once < kExitsAtOnceMax) return false;
  return !master_.has_lived_well || now - master_.failing_since >= kOutagePatience;
}

void Keeper::OnAgentExited(Instant now, const AgentExited& event, Actions* actions) {
  auto found = agents_.find(event.node);
  if (found == agents_.end()) return;
  Child& agent = found->second;
  if (has_ended_) {
    agent.state = Child::State::kDone;
    return;
  }
  if (event.has_left && event.code != kExitFenced) {
    // The agent exits with the job's code, whatever that would mean as an agent's own.
    agent.state = Child::State::kDown;
    agent.due = now + kEndPatience;
    if (event.is_job_over) agent.job_end = event.code;
    return;
  }
  const bool is_final =
      event.code == kExitUsage || event.code == kExitNotAuthorised || event.code == kExitFenced;
  if (event.by_itself && is_final) {
    agent.state = Child::State::kDone;
    const bool is_out = event.code == kExitFenced;
    // Other hosts may train on, and their master is a child of this launcher.
    const bool serves_others = plan_.has_master && !plan_.is_whole_job;
    if ((is_out && serves_others) || !AllAgentsDone()) return;
    actions->push_back(GiveUp{event.code, is_out ? "this host has no place in the job any more"
                                                 : "no agent of this host can run"});
    return;
  }
  const bool lived = now - agent.begun >= kLivedWell;
  if (event.by_itself && event.code == kExitUnreachable && lived) {
    // This launcher restarts its own master, so it may come back. Elsewhere the job is gone.
    agent.state = plan_.has_master ? Child::State::kDown : Child::State::kDone;
    if (plan_.has_master) agent.due = now + plan_.timers.respawn_delay_max;
    if (AllAgentsDone()) actions->push_back(GiveUp{event.code, "no master was found"});
    return;
  }
  // Count its ranks anyway: an agent that exits by itself has ended them.
  const Duration delay = DelayAfterDeath(now, event.was_killed, &agent);
  agent.state = Child::State::kJudged;
  if (event.by_itself && agent.deaths_at_once >= kExitsAtOnceMax) {
    agent.state = Child::State::kDone;
    if (AllAgentsDone()) {
      actions->push_back(GiveUp{event.code, "the agents of this host end right after each start"});
    }
    return;
  }
  agent.due = now + std::max(delay, plan_.timers.settle);
}

void Keeper::OnRanksCounted(Instant now, const RanksCounted& event, Actions* actions) {
  auto found = agents_.find(event.node);
  if (found == agents_.end() || found->second.state != Child::State::kJudged || has_ended_) return;
  Child& agent = found->second;
  if (event.placed > 0 && event.living == 0) {
    actions->push_back(ReportNodeGone{
        event.node, "lost its agent and all " + std::to_string(event.placed) + " ranks"});
    // Restart it here: other launchers are not asked for this host's node.
    const bool is_machine = plan_.is_whole_job && agents_.size() > 1;
    const bool stays_dead = is_machine && agent.wanted == agent.started;
    if (stays_dead) {
      agent.state = Child::State::kGone;
      agent.due = Instant::Max();
      return;
    }
  } else if (event.living > 0) {
    actions->push_back(KeeperNote{"The agent of " + event.node + " died; its " +
                                  std::to_string(event.living) +
                                  " ranks keep running, and a new agent takes them over."});
  } else {
    actions->push_back(
        KeeperNote{"The agent of " + event.node + " died while idle; starting it again."});
  }
  agent.state = Child::State::kDown;
  agent.due = now;
}

void Keeper::OnTime(Instant now, Actions* actions) {
  if (has_ended_) return;
  if (master_.due <= now) {
    master_.due = Instant::Max();
    master_.begun = now;
    actions->push_back(StartMaster{});
  }
  for (auto& [node, agent] : agents_) {
    if (agent.due > now) continue;
    agent.due = Instant::Max();
    if (agent.state == Child::State::kJudged) {
      actions->push_back(CountRanks{node});
    } else if (HasMissedTheEnd(agent)) {
      agent.state = Child::State::kDone;
      if (!AllAgentsDone()) continue;
      actions->push_back(GiveUp{*agent.job_end, "the job's master ended it and has gone"});
    } else {
      agent.begun = now;
      agent.started = agent.wanted;
      agent.job_end.reset();
      actions->push_back(StartAgent{node, agent.started});
    }
  }
}

// No later master would let the job go on, because the end is recorded before it is ordered.
bool Keeper::HasMissedTheEnd(const Child& agent) const {
  return agent.job_end.has_value() && !is_linked_ && !plan_.has_master;
}

Duration Keeper::DelayAfterDeath(Instant now, bool was_killed, Child* child) const {
  const bool lived_well = now - child->begun >= kLivedWell;
  child->has_lived_well = child->has_lived_well || lived_well;
  if (was_killed && child->state == Child::State::kUp) {
    // Starts are spaced in any case, because the kernel may be killing for lack of memory.
    return std::max(Duration(), child->begun + plan_.timers.respawn_delay - now);
  }
  if (lived_well) {
    child->deaths_at_once = 0;
    return Duration();
  }
  if (++child->deaths_at_once == 1) child->failing_since = now;
  // The first death is answered at once, because most come from a kill.
  if (child->deaths_at_once == 1) return Duration();
  Duration delay = plan_.timers.respawn_delay;
  for (uint32_t i = 2; i < child->deaths_at_once && delay < plan_.timers.respawn_delay_max; ++i) {
    delay = delay * 2;
  }
  return std::min(delay, plan_.timers.respawn_delay_max);
}

bool Keeper::AllAgentsDone() const {
  return std::all_of(agents_.begin(), agents_.end(), [](const auto& agent) {
    return agent.second.state == Child::State::kDone || agent.second.state == Child::State::kGone;
  });
}

Instant Keeper::NextDeadline() const {
  if (has_ended_) return Instant::Max();
  Instant next = master_.due;
  for (const auto& [node, agent] : agents_) next = std::min(next, agent.due);
  return next;
}

bool Keeper::IsGone(const std::string& node) const {
  const auto found = agents_.find(node);
  return found != agents_.end() && found->second.state == Child::State::kGone;
}

}  // namespace paceline::core
