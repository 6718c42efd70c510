#include "paceline/core/world/rendezvous.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

namespace paceline::core {

namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// End of the run of digits that starts at `begin`, and its start without leading zeros.
size_t DigitsEnd(const std::string& text, size_t begin) {
  while (begin < text.size() && IsDigit(text[begin])) ++begin;
  return begin;
}

// Nodes that wait for a seat, best first; see rule 4 in the header.
class Queue {
 public:
  explicit Queue(std::vector<Candidate> nodes) : nodes_(std::move(nodes)) {
    std::sort(nodes_.begin(), nodes_.end(), [](const Candidate& a, const Candidate& b) {
      if (a.troubles != b.troubles) return a.troubles < b.troubles;
      return NaturalLess(a.name, b.name);
    });
    taken_.resize(nodes_.size(), false);
  }

  // Takes the best node for a seat that had `slots` ranks; 0: it had none.
  Candidate Take(uint32_t slots) {
    while (taken_[first_]) ++first_;
    size_t best = first_;
    for (size_t i = first_; slots != 0 && i < nodes_.size(); ++i) {
      if (nodes_[i].troubles != nodes_[first_].troubles) break;
      if (taken_[i] || nodes_[i].slots != slots) continue;
      best = i;
      break;
    }
    taken_[best] = true;
    return std::move(nodes_[best]);
  }

 private:
  std::vector<Candidate> nodes_;
  std::vector<bool> taken_;
  size_t first_ = 0;  // all before it are taken
};

}  // namespace

bool NaturalLess(const std::string& a, const std::string& b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (IsDigit(a[i]) && IsDigit(b[j])) {
      const size_t a_end = DigitsEnd(a, i);
      const size_t b_end = DigitsEnd(b, j);
      while (i + 1 < a_end && a[i] == '0') ++i;
      while (j + 1 < b_end && b[j] == '0') ++j;
      const std::string_view left(a.data() + i, a_end - i);
      const std::string_view right(b.data() + j, b_end - j);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
      i = a_end;
      j = b_end;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;
}

uint32_t WorldSize(const WorldBounds& bounds, size_t available) {
  const uint32_t unit = std::max(1U, bounds.unit);
  const size_t most = std::min<size_t>(available, bounds.nodes_max);
  const auto size = static_cast<uint32_t>(most - most % unit);
  return size < std::max(1U, bounds.nodes_min) ? 0 : size;
}

std::vector<Candidate> PlanSeats(const std::vector<Seat>& last, std::vector<Candidate> candidates,
                                 const WorldBounds& bounds) {
  const uint32_t size = WorldSize(bounds, candidates.size());
  if (size == 0) return {};
  std::map<NodeId, Candidate> others;
  for (Candidate& candidate : candidates) others.emplace(candidate.node, std::move(candidate));

  std::vector<std::optional<Candidate>> seats(size);
  std::vector<Candidate> movers;  // by old seat
  for (size_t i = 0; i < last.size(); ++i) {
    auto node = others.extract(last[i].node);
    if (node.empty()) continue;
    if (i < size) {
      seats[i] = std::move(node.mapped());
    } else {
      movers.push_back(std::move(node.mapped()));
    }
  }
  std::vector<Candidate> rest;
  for (auto& [id, candidate] : others) rest.push_back(std::move(candidate));
  Queue queue(std::move(rest));

  size_t next_mover = 0;
  for (size_t i = 0; i < size; ++i) {
    if (seats[i]) continue;
    if (next_mover < movers.size()) {
      seats[i] = std::move(movers[next_mover++]);
    } else {
      seats[i] = queue.Take(i < last.size() ? last[i].rank_count : 0);
    }
  }
  std::vector<Candidate> nodes;
  for (auto& seat : seats) nodes.push_back(std::move(*seat));
  return nodes;
}

std::vector<Seat> NumberSeats(const std::vector<Candidate>& nodes) {
  std::vector<Seat> seats;
  uint32_t first_rank = 0;
  for (const Candidate& node : nodes) {
    seats.push_back({.node = node.node, .first_rank = first_rank, .rank_count = node.slots});
    first_rank += node.slots;
  }
  return seats;
}

}  // namespace paceline::core
