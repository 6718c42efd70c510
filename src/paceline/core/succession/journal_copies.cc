#include "paceline/core/succession/journal_copies.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "paceline/base/mark.h"

namespace paceline::core {

std::vector<NodeId> ChooseKeepers(const std::string& own_host,
                                  const std::vector<CopyCandidate>& candidates,
                                  const std::vector<NodeId>& present) {
  std::vector<NodeId> chosen;
  std::set<std::string> hosts;
  const auto rank = [&](const CopyCandidate& one) {
    const bool has_copy = std::find(present.begin(), present.end(), one.node) != present.end();
    return std::tuple(one.host == own_host, hosts.contains(one.host), !has_copy, one.node);
  };
  while (chosen.size() < kCopies) {
    const CopyCandidate* best = nullptr;
    for (const CopyCandidate& one : candidates) {
      if (std::find(chosen.begin(), chosen.end(), one.node) != chosen.end()) continue;
      if (best == nullptr || rank(one) < rank(*best)) best = &one;
    }
    if (best == nullptr) break;
    chosen.push_back(best->node);
    hosts.insert(best->host);
  }
  return chosen;
}

void JournalCopies::Came(NodeId node, std::string name, std::string host) {
  here_[node] = {std::move(name), std::move(host)};
  keepers_.erase(node);
  has_newcomer_ = true;
}

void JournalCopies::Went(NodeId node) {
  here_.erase(node);
  if (keepers_.erase(node) > 0) MARK("a node with a copy of the journal went away");
}

void JournalCopies::Held(NodeId node, uint64_t taken) {
  const auto found = keepers_.find(node);
  if (found == keepers_.end()) return;
  found->second.taken = taken;
  found->second.is_waiting = false;
}

std::vector<std::string> JournalCopies::keepers() const {
  std::vector<std::string> names;
  for (const auto& [node, keeper] : keepers_) names.push_back(here_.at(node).name);
  return names;
}

bool JournalCopies::AreApart() const {
  std::set<std::string> hosts{own_host_};
  for (const auto& [node, keeper] : keepers_) hosts.insert(here_.at(node).host);
  return hosts.size() == keepers_.size() + 1;
}

std::vector<JournalCopies::Send> JournalCopies::Next(uint64_t length) {
  const bool is_better_possible = std::exchange(has_newcomer_, false) && !AreApart();
  if (keepers_.size() < std::min(kCopies, here_.size()) || is_better_possible) {
    std::vector<CopyCandidate> candidates;
    for (const auto& [node, one] : here_) candidates.push_back({node, one.host});
    std::vector<NodeId> present;
    for (const auto& [node, keeper] : keepers_) present.push_back(node);
    std::map<NodeId, Keeper> before = std::exchange(keepers_, {});
    for (const NodeId node : ChooseKeepers(own_host_, candidates, present)) {
      keepers_[node] = before[node];
    }
  }
  const std::vector<std::string> names = keepers();
  std::vector<Send> sends;
  for (auto& [node, keeper] : keepers_) {
    const bool has_news = keeper.taken < length || keeper.told != names;
    if (keeper.is_waiting || !has_news) continue;
    const uint64_t from = std::min(keeper.taken, length);
    const uint64_t size = std::min(piece_max_, length - from);
    sends.push_back({node, from, size, from + size == length});
    keeper.is_waiting = true;
    keeper.told = names;
  }
  return sends;
}

}  // namespace paceline::core
