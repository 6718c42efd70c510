#include "paceline/core/succession/succession.h"

#include <algorithm>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"

namespace paceline::core {

Succession::Succession(Instant now, Setup setup, SuccessionTimes times)
    : setup_(std::move(setup)), times_(times), since_(now) {}

void Succession::Offered(Instant now, ConnectionId connection, std::string name, CopyOffer offer) {
  if (!first_at_.has_value()) first_at_ = now;
  // A node that came again has closed its former connection.
  std::erase_if(nodes_, [&](const Node& node) { return node.name == name; });
  nodes_.push_back({connection, std::move(name), std::move(offer)});
}

void Succession::Left(Instant, ConnectionId connection) {
  std::erase_if(nodes_, [&](const Node& node) { return node.connection == connection; });
  if (fetch_.has_value() && fetch_->connection == connection && !has_all_) fetch_.reset();
}

void Succession::Fetched(Instant now, ConnectionId connection, uint64_t end) {
  if (!fetch_.has_value() || fetch_->connection != connection) return;
  fetch_->is_asked = false;
  // A piece without content would be asked for again and again.
  if (end <= fetch_->got) return Damaged(now, connection);
  fetch_->got = end;
  has_all_ = end >= fetch_->length;
}

void Succession::Damaged(Instant, ConnectionId connection) {
  MARK("a copy of the journal cannot be used");
  useless_.insert(connection);
  fetch_.reset();
  has_all_ = false;
  is_done_ = false;
}

const Succession::Node* Succession::Best() const {
  const Node* best = nullptr;
  for (const Node& node : nodes_) {
    if (node.offer.length == 0 || useless_.contains(node.connection)) continue;
    // A copy of a later term is of a master that has replaced this one.
    if (node.offer.term >= setup_.term || !node.offer.IsNewerThan(setup_.own)) continue;
    if (best == nullptr || node.offer.IsNewerThan(best->offer)) best = &node;
  }
  return best;
}

bool Succession::HasHeardEnough(Instant now) const {
  if (setup_.survivors == 0 && nodes_.empty()) return true;
  if (now >= since_ + times_.copy_within) return true;
  if (setup_.survivors > 0 && nodes_.size() >= setup_.survivors) return true;
  const Node* best = Best();
  if (best == nullptr) return false;
  if (now >= *first_at_ + times_.all_within) return true;
  if (best->offer.keepers.empty()) return false;
  return std::all_of(best->offer.keepers.begin(), best->offer.keepers.end(),
                     [this](const std::string& keeper) {
                       return std::any_of(nodes_.begin(), nodes_.end(),
                                          [&](const Node& node) { return node.name == keeper; });
                     });
}

SuccessionAction Succession::Begin(History history) {
  is_done_ = true;
  return BeginJob{history};
}

std::optional<SuccessionAction> Succession::Next(Instant now) {
  if (is_done_) return std::nullopt;
  if (has_all_) return Begin(History::kCopy);
  if (fetch_.has_value() && fetch_->is_asked && now >= fetch_->due) {
    MARK("a copy of the journal does not come");
    useless_.insert(fetch_->connection);
    fetch_.reset();
  }
  if (!fetch_.has_value()) {
    if (!HasHeardEnough(now)) return std::nullopt;
    const Node* best = Best();
    if (best == nullptr) return Begin(setup_.own.length > 0 ? History::kOwn : History::kNone);
    fetch_ = Fetch{.connection = best->connection, .length = best->offer.length};
  }
  if (fetch_->is_asked) return std::nullopt;
  fetch_->is_asked = true;
  fetch_->due = now + times_.piece_within;
  return FetchPiece{fetch_->connection, fetch_->got};
}

Instant Succession::NextDeadline() const {
  if (is_done_) return Instant::Max();
  if (fetch_.has_value()) return fetch_->is_asked ? fetch_->due : since_;
  return Best() != nullptr ? *first_at_ + times_.all_within : since_ + times_.copy_within;
}

std::string Succession::Pending() const {
  if (fetch_.has_value()) return "fetches a node's copy of the journal";
  return Concat("hears from the nodes of the master before it, ", nodes_.size(), " so far");
}

}  // namespace paceline::core
