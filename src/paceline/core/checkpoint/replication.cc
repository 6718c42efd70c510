#include "paceline/core/checkpoint/replication.h"

#include <algorithm>

#include "paceline/base/mark.h"
#include "paceline/core/checkpoint/image_on_disk.h"

namespace paceline::core {
namespace {

// A round that is not complete after this time is given up, and a newer step is tried.
constexpr Duration kRoundMax = Duration::Seconds(10 * 60);
// Cost of an order for the master: with more nodes, rounds are less frequent.
constexpr Duration kPauseANode = Duration::Milliseconds(1);
constexpr Duration kRoundRetryMin = Duration::Seconds(2);
constexpr uint32_t kRoundRetryDoublingsMax = 6;
// Steps whose hashes are remembered.
constexpr size_t kRootsMax = 4;

// The world's nodes, grouped by failure domain and ordered by seat, without nodes that cannot serve
// fetches.
std::vector<std::vector<NodeId>> DomainsOf(const World& world, const Memories& memories) {
  std::vector<std::vector<NodeId>> domains;
  std::map<std::string, size_t> index_of;
  for (const Seat& seat : world.seats) {
    const auto report = memories.reports.find(seat.node);
    if (report == memories.reports.end() || report->second.address.empty()) continue;
    const auto [at, is_new] = index_of.emplace(report->second.domain, domains.size());
    if (is_new) domains.emplace_back();
    domains[at->second].push_back(seat.node);
  }
  return domains;
}

bool HasCopy(const CheckpointReport& report, const FetchOrder& order) {
  return std::any_of(report.images.begin(), report.images.end(), [&](const MemoryImage& image) {
    return image.rank == order.rank && image.saved == order.saved && image.is_copy &&
           image.place == report.place;
  });
}

// The image as its own node reports it.
const MemoryImage* OwnImage(const Memories& memories, NodeId node, Rank rank, SavedStep saved) {
  const auto report = memories.reports.find(node);
  const MemoryImage* image =
      report == memories.reports.end() ? nullptr : Find(report->second, rank, saved);
  return image == nullptr || image->is_copy || IsOnDisk(report->second, *image) ? nullptr : image;
}

// For each file, by hash: the domains where a rank saved it.
std::map<uint64_t, std::set<size_t>> Holdings(const World& world,
                                              const std::vector<std::vector<NodeId>>& domains,
                                              const Memories& memories, SavedStep saved) {
  std::map<NodeId, size_t> domain_of;
  for (size_t i = 0; i < domains.size(); ++i) {
    for (const NodeId node : domains[i]) domain_of[node] = i;
  }
  std::map<uint64_t, std::set<size_t>> domains_with;
  for (const Seat& seat : world.seats) {
    const auto domain = domain_of.find(seat.node);
    if (domain == domain_of.end()) continue;
    for (uint32_t i = 0; i < seat.rank_count; ++i) {
      const MemoryImage* image = OwnImage(memories, seat.node, Rank(seat.first_rank + i), saved);
      if (image != nullptr) domains_with[image->file_root].insert(domain->second);
    }
  }
  return domains_with;
}

size_t DomainOf(const std::vector<std::vector<NodeId>>& domains, NodeId node) {
  for (size_t i = 0; i < domains.size(); ++i) {
    if (std::find(domains[i].begin(), domains[i].end(), node) != domains[i].end()) return i;
  }
  return domains.size();
}

}  // namespace

std::vector<size_t> HoldersFor(size_t index, size_t count, uint32_t replicas) {
  const size_t size = size_t{replicas} + 1;
  const size_t groups = std::max<size_t>(count / size, 1);
  const size_t group = std::min(index / size, groups - 1);
  const size_t begin = group * size;
  const size_t end = group + 1 == groups ? count : begin + size;
  std::vector<size_t> holders;
  for (size_t k = 1; k < end - begin; ++k) {
    holders.push_back(begin + (index - begin + k) % (end - begin));
  }
  for (size_t k = 1; k < count; ++k) {
    const size_t other = (index + k) % count;
    if (other < begin || other >= end) holders.push_back(other);
  }
  return holders;
}

std::optional<Replication::Round> Replication::Plan(const World& world, const Domains& domains,
                                                    SavedStep saved, const Memories& memories,
                                                    std::string* why) const {
  Round round{.saved = saved, .orders = {}, .since = {}};
  const auto domains_with = Holdings(world, domains, memories, saved);
  for (const Seat& seat : world.seats) {
    const size_t domain = DomainOf(domains, seat.node);
    for (uint32_t rank = seat.first_rank; rank < seat.first_rank + seat.rank_count; ++rank) {
      const MemoryImage* image = OwnImage(memories, seat.node, Rank(rank), saved);
      if (image == nullptr || domain == domains.size()) {
        *why = "rank " + std::to_string(rank) + " does not hold it any more";
        return std::nullopt;
      }
      const std::set<size_t>& has = domains_with.at(image->file_root);
      if (has.size() > replicas_) {
        MARK("natural replica");
        continue;
      }
      uint32_t lacking = replicas_ + 1 - static_cast<uint32_t>(has.size());
      const CheckpointReport& giver = memories.reports.at(seat.node);
      std::vector<FetchOrder::Source> sources = {{giver.place, giver.address, image->place, false}};
      for (const size_t other : HoldersFor(domain, domains.size(), replicas_)) {
        if (lacking == 0) break;
        if (has.contains(other)) continue;
        const std::vector<NodeId>& nodes = domains[other];
        for (size_t k = 0; k < nodes.size(); ++k) {
          const NodeId node = nodes[(rank + k) % nodes.size()];
          if (refused_.contains({node, Rank(rank)})) continue;
          round.orders[node].push_back({.rank = Rank(rank),
                                        .saved = saved,
                                        .root = image->root,
                                        .name = "",
                                        .sources = sources,
                                        .is_urgent = false});
          // The next holder may fetch from this one, so the saver sends only once.
          const CheckpointReport& holder = memories.reports.at(node);
          sources.insert(sources.begin(), {holder.place, holder.address, holder.place, true});
          --lacking;
          break;
        }
      }
      if (lacking > 0) {
        *why = "no other host can hold a copy of rank " + std::to_string(rank);
        return std::nullopt;
      }
    }
  }
  return round;
}

void Replication::Readdress(const std::string& node, const std::string& address) {
  for (std::optional<Round>* round : {&round_, &last_done_}) {
    if (!round->has_value()) continue;
    if (core::Readdress(node, address, &(*round)->orders)) has_changed_ = true;
  }
}

void Replication::Reset() {
  if (round_.has_value()) has_changed_ = true;
  round_.reset();
  last_done_.reset();
  refused_.clear();
  failures_in_a_row_ = 0;
  not_before_.reset();
  problem_.clear();
}

void Replication::GiveUp(Instant now, const std::string& why, std::vector<std::string>* said) {
  if (problem_ != why) {
    said->push_back("step " + std::to_string(round_->saved.step) +
                    " is not on a second host: " + why);
  }
  problem_ = why;
  not_before_ =
      now + kRoundRetryMin * (int64_t{1} << std::min(failures_in_a_row_, kRoundRetryDoublingsMax));
  ++failures_in_a_row_;
  refused_.clear();
  round_.reset();
  has_changed_ = true;
}

void Replication::NoteEqual(const World& world, SavedStep saved,
                            const std::map<Rank, uint64_t>& roots) {
  std::map<uint64_t, std::vector<RankRun>> runs_of;
  for (const auto& [rank, root] : roots) {
    std::vector<RankRun>& runs = runs_of[root];
    const bool goes_on = !runs.empty() && runs.back().first + runs.back().count == rank.value();
    if (goes_on) {
      ++runs.back().count;
    } else {
      runs.push_back({rank.value(), 1});
    }
  }
  equal_.clear();
  equal_here_.clear();
  std::map<uint64_t, size_t> index_of;
  for (auto& [root, runs] : runs_of) {
    if (runs.size() == 1 && runs[0].count == 1) continue;
    index_of[root] = equal_.size();
    equal_.push_back({saved, root, std::move(runs)});
  }
  for (const Seat& seat : world.seats) {
    std::set<size_t> here;
    for (uint32_t rank = seat.first_rank; rank < seat.first_rank + seat.rank_count; ++rank) {
      const auto root = roots.find(Rank(rank));
      if (root == roots.end()) continue;
      const auto index = index_of.find(root->second);
      if (index != index_of.end()) here.insert(index->second);
    }
    if (!here.empty()) equal_here_[seat.node].assign(here.begin(), here.end());
  }
}

std::vector<EqualFiles> Replication::EqualFor(NodeId node) const {
  std::vector<EqualFiles> equal;
  const auto here = equal_here_.find(node);
  if (here == equal_here_.end()) return equal;
  for (const size_t index : here->second) equal.push_back(equal_[index]);
  return equal;
}

void Replication::Watch(Instant now, const World& world, const Domains& domains, Memories* memories,
                        std::vector<std::string>* said) {
  std::string why;
  bool is_replan = false;
  bool is_done = true;
  for (const auto& [node, orders] : round_->orders) {
    const CheckpointReport& report = memories->reports.at(node);
    for (const FetchOrder& order : orders) {
      if (HasCopy(report, order)) continue;
      is_done = false;
      for (const FetchFailure& failure : report.failed) {
        if (failure.rank != order.rank || failure.saved != order.saved) continue;
        if (!refused_.insert({node, order.rank}).second) continue;
        why = report.place + ": " + failure.problem;
        is_replan = true;
      }
    }
  }
  if (is_done) {
    MARK("step replicated");
    round_->is_done = true;
    last_done_ = round_;
    newest_ = round_->saved;
    failures_in_a_row_ = 0;
    problem_.clear();
    refused_.clear();
    std::map<Rank, uint64_t>& roots = memories->roots[round_->saved];
    for (const Seat& seat : world.seats) {
      for (uint32_t rank = seat.first_rank; rank < seat.first_rank + seat.rank_count; ++rank) {
        const MemoryImage* image = OwnImage(*memories, seat.node, Rank(rank), round_->saved);
        if (image != nullptr) roots[Rank(rank)] = image->file_root;
      }
    }
    NoteEqual(world, round_->saved, roots);
    while (memories->roots.size() > kRootsMax) memories->roots.erase(memories->roots.begin());
    has_changed_ = true;
  } else if (is_replan) {
    MARK("another holder");
    std::string none;
    std::optional<Round> next = Plan(world, domains, round_->saved, *memories, &none);
    if (!next.has_value()) return GiveUp(now, why, said);
    next->since = round_->since;
    round_ = std::move(next);
    has_changed_ = true;
  } else if (now >= round_->since + kRoundMax) {
    GiveUp(now, "it takes too long", said);
  }
}

void Replication::Settle(Instant now, const World& world, std::optional<uint32_t> asked,
                         std::optional<SavedStep> wanted, Memories* memories,
                         std::vector<std::string>* said) {
  // A connection broke: the node returns, or there will be another world.
  const bool are_all_there =
      std::all_of(world.seats.begin(), world.seats.end(),
                  [&](const Seat& seat) { return memories->reports.contains(seat.node); });
  if (not_before_.has_value() && now >= *not_before_) not_before_.reset();
  if (!are_all_there) {
    if (is_busy() && now >= round_->since + kRoundMax) GiveUp(now, "it takes too long", said);
    return;
  }
  const Domains domains = DomainsOf(world, *memories);
  const auto others = static_cast<uint32_t>(domains.empty() ? 0 : domains.size() - 1);
  const uint32_t replicas = std::min({asked.value_or(1), others, kReplicasMax});
  if (std::exchange(replicas_, replicas) != replicas) {
    has_changed_ = true;
    problem_.clear();
  }
  if (replicas_ == 0) {
    const std::string why =
        asked == 0u ? "the script asked for none (replicas=0)" : "the job has no second host";
    if (std::exchange(problem_, why) == why) return;
    has_changed_ = true;
    round_.reset();
    if (asked.value_or(0) > 0) said->push_back("no copies are made: " + why);
    return;
  }
  if (is_busy()) Watch(now, world, domains, memories, said);
  if (is_busy() || !wanted.has_value() || not_before_.has_value()) return;
  if (newest_.has_value() && *newest_ >= *wanted) return;
  std::string why;
  std::optional<Round> round = Plan(world, domains, *wanted, *memories, &why);
  // The step was overwritten meanwhile; a newer one will come.
  if (!round.has_value()) return;
  MARK("replication begins");
  round_ = std::move(round);
  round_->since = now;
  not_before_ = now + kPauseANode * static_cast<int64_t>(world.seats.size());
  has_changed_ = true;
  // If all have equal files, the round is complete at once.
  Watch(now, world, domains, memories, said);
}

std::vector<FetchOrder> Replication::OrdersFor(NodeId node) const {
  const std::optional<Round>& round = round_.has_value() ? round_ : last_done_;
  if (!round.has_value()) return {};
  const auto found = round->orders.find(node);
  return found == round->orders.end() ? std::vector<FetchOrder>() : found->second;
}

bool Replication::TakeChanged() { return std::exchange(has_changed_, false); }

Instant Replication::NextDeadline() const {
  const Instant round = is_busy() ? round_->since + kRoundMax : Instant::Max();
  return std::min(round, not_before_.value_or(Instant::Max()));
}

}  // namespace paceline::core
