#pragma once

// A node's copy of the master's journal. It lives as long as the node's agent.
//
// A master that begins to send its journal anew writes into a second copy, which replaces the first
// one when it is whole. So a node that has had a whole copy always has one, whenever the master
// goes away.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "paceline/model/journal_copy.h"

namespace paceline::core {

template <class Content>
class JournalCopy {
 public:
  // The copy that a new master may have; length 0: there is none.
  const CopyOffer& offer() const { return offer_; }
  // How far the present master has sent its journal to this node.
  uint64_t taken() const { return is_growing_ ? next_.size() : content_.size(); }

  // Appends a piece of the master's journal. A piece that does not continue what is here is
  // dropped: the master is told taken(), and goes on from there.
  void Take(JournalPiece<Content> piece) {
    const bool is_anew = piece.from == 0;
    if (is_anew) Restart();
    Content& target = is_growing_ ? next_ : content_;
    if (piece.from != target.size() || (!is_growing_ && piece.term != offer_.term)) return;
    target.insert(target.end(), piece.content.begin(), piece.content.end());
    if (!piece.is_whole && is_growing_) return;
    if (is_growing_) content_ = std::move(next_);
    next_ = Content();
    is_growing_ = false;
    offer_ = {piece.term, content_.size(), std::move(piece.keepers)};
  }

  // Up to `size_max` of the copy, for a new master. Its last part is whole.
  JournalPiece<Content> Read(uint64_t from, uint64_t size_max) const {
    const uint64_t begin = std::min<uint64_t>(from, content_.size());
    const uint64_t end = std::min<uint64_t>(content_.size(), begin + size_max);
    const auto at = [this](uint64_t place) {
      return content_.begin() + static_cast<std::ptrdiff_t>(place);
    };
    return {.term = offer_.term,
            .from = from,
            .content = Content(at(begin), at(end)),
            .is_whole = end == content_.size(),
            .keepers = offer_.keepers};
  }

  void Drop() { *this = JournalCopy(); }

 private:
  void Restart() {
    is_growing_ = true;
    next_ = Content();
  }

  CopyOffer offer_;
  Content content_;
  Content next_;  // while is_growing_
  bool is_growing_ = false;
};

}  // namespace paceline::core
