#pragma once

// A map from NodeId, ordered by id, for the look-up in every heartbeat. The master gives ids from 1
// without gaps, so an entry is nearly always found at once; other ids cost a search. References
// stay valid when entries are added; entries are never removed. It has only the parts of std::map's
// interface that are used.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "paceline/model/ids.h"

namespace paceline::core {

template <class Value>
class NodeMap {
 public:
  struct Entry {
    NodeId first;
    Value second;
    bool operator==(const Entry&) const = default;
  };

  template <class Inner, class Reference>
  class Walk {
   public:
    explicit Walk(Inner inner) : inner_(inner) {}
    Reference operator*() const { return **inner_; }
    auto* operator->() const { return &**this; }
    Walk& operator++() {
      ++inner_;
      return *this;
    }
    bool operator==(const Walk&) const = default;

   private:
    Inner inner_;
  };

 private:
  using Entries = std::vector<std::unique_ptr<Entry>>;

 public:
  using iterator = Walk<typename Entries::iterator, Entry&>;
  using const_iterator = Walk<typename Entries::const_iterator, const Entry&>;

  NodeMap() = default;
  NodeMap(const NodeMap& other) { *this = other; }
  NodeMap(NodeMap&&) noexcept = default;
  ~NodeMap() = default;
  NodeMap& operator=(NodeMap&&) noexcept = default;
  NodeMap& operator=(const NodeMap& other) {
    if (this == &other) return *this;
    entries_.clear();
    for (const Entry& entry : other) entries_.push_back(std::make_unique<Entry>(entry));
    return *this;
  }

  iterator begin() { return iterator(entries_.begin()); }
  iterator end() { return iterator(entries_.end()); }
  const_iterator begin() const { return const_iterator(entries_.begin()); }
  const_iterator end() const { return const_iterator(entries_.end()); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  iterator find(NodeId id) {
    const size_t at = Position(id);
    return Is(at, id) ? iterator(entries_.begin() + static_cast<ptrdiff_t>(at)) : end();
  }
  const_iterator find(NodeId id) const {
    const size_t at = Position(id);
    return Is(at, id) ? const_iterator(entries_.begin() + static_cast<ptrdiff_t>(at)) : end();
  }
  Value& operator[](NodeId id) {
    const size_t at = Position(id);
    if (!Is(at, id)) {
      entries_.insert(entries_.begin() + static_cast<ptrdiff_t>(at),
                      std::make_unique<Entry>(Entry{id, Value{}}));
    }
    return entries_[at]->second;
  }

  bool operator==(const NodeMap& other) const {
    return std::equal(entries_.begin(), entries_.end(), other.entries_.begin(),
                      other.entries_.end(), [](const auto& a, const auto& b) { return *a == *b; });
  }

 private:
  bool Is(size_t at, NodeId id) const { return at < entries_.size() && entries_[at]->first == id; }

  // The id's position, or where it belongs.
  size_t Position(NodeId id) const {
    const size_t guess = size_t{id.value()} - 1;  // 0 wraps around, to an invalid position
    if (Is(guess, id)) return guess;
    if (entries_.empty() || entries_.back()->first < id) return entries_.size();
    const auto found = std::lower_bound(
        entries_.begin(), entries_.end(), id,
        [](const std::unique_ptr<Entry>& entry, NodeId wanted) { return entry->first < wanted; });
    return static_cast<size_t>(found - entries_.begin());
  }

  Entries entries_;
};

}  // namespace paceline::core
