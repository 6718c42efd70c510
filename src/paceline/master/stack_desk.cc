#include "paceline/master/stack_desk.h"

#include <algorithm>
#include <utility>

namespace paceline::master {

void StackDesk::Ask(Instant now, Generation generation,
                    const std::map<ConnectionId, std::string>& agents,
                    std::vector<std::string> silent, Reply reply) {
  replies_.push_back(std::move(reply));
  if (!deadline_.is_max()) return;
  ++round_;
  deadline_ = now + kPatience;
  awaited_ = agents;
  stacks_.silent = std::move(silent);
  for (const auto& [connection, node] : agents) {
    outbox_->Send(connection, wire::EvidenceOrder{generation, round_});
  }
  if (awaited_.empty()) Finish();
}

bool StackDesk::Take(ConnectionId connection, const NodeEvidence& evidence) {
  if ((evidence.round & kAskedByPerson) == 0) return false;
  const auto found = awaited_.find(connection);
  // Ignored: the answer is for an earlier question, or came twice.
  if (evidence.round != round_ || found == awaited_.end()) return true;
  stacks_.nodes.push_back({.node = found->second, .ranks = evidence.ranks});
  for (RankEvidence& rank : stacks_.nodes.back().ranks) rank.collectives.clear();
  awaited_.erase(found);
  if (awaited_.empty()) Finish();
  return true;
}

void StackDesk::Forget(ConnectionId connection) {
  const auto found = awaited_.find(connection);
  if (found == awaited_.end()) return;
  stacks_.silent.push_back(found->second);
  awaited_.erase(found);
  if (awaited_.empty()) Finish();
}

void StackDesk::PassTime(Instant now) {
  if (now < deadline_) return;
  for (const auto& [connection, node] : awaited_) stacks_.silent.push_back(node);
  Finish();
}

void StackDesk::Finish() {
  deadline_ = Instant::Max();
  awaited_.clear();
  std::sort(stacks_.silent.begin(), stacks_.silent.end());
  const wire::JobStacks stacks = std::exchange(stacks_, {});
  for (const Reply& reply : std::exchange(replies_, {})) reply(stacks);
}

}  // namespace paceline::master
