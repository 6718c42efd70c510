#include "paceline/core/checkpoint/book.h"

#include <algorithm>

namespace paceline::core {
namespace {

struct BookFolder {
  CheckpointBook& book;
  Instant at;

  void operator()(const RestoreDecided& fact) {
    if (book.restore.generation == Generation()) book.begun_at = at;
    book.restore = fact;
    if (fact.from == RestoreOrder::From::kMemory) ++book.memory_restores;
    if (fact.from == RestoreOrder::From::kStorage) ++book.storage_restores;
    // If the world restored an older step than the one that storage refused, the refused step
    // belongs to an abandoned branch and is never written.
    const bool is_dead = book.not_stored.has_value() && IsGivenUp(book, book.not_stored->saved);
    if (is_dead) book.not_stored.reset();
    if (book.not_stored.has_value()) book.not_stored->is_final = false;  // a new world tries again
  }
  void operator()(const CheckpointCommitted& fact) {
    book.committed = fact;
    book.committed_at = at;
    book.ranks_fixed = fact.ranks_fixed;
    ++book.commits;
    // Storage accepts writes again. A step that was given up stays recorded until it is stored.
    const bool is_there = book.not_stored.has_value() &&
                          (!book.not_stored->is_final || book.not_stored->saved <= fact.saved);
    if (is_there) book.not_stored.reset();
  }
  void operator()(const CheckpointDamaged& fact) {
    if (std::find(book.damaged.begin(), book.damaged.end(), fact.name) != book.damaged.end()) {
      return;
    }
    // Forget the oldest one: retention has removed it long ago.
    if (book.damaged.size() == kDamagedMax) book.damaged.erase(book.damaged.begin());
    book.damaged.push_back(fact.name);
    if (book.committed.has_value() && book.committed->name == fact.name) book.committed.reset();
  }
  void operator()(const CheckpointNotStored& fact) { book.not_stored = fact; }
};

}  // namespace

void Apply(const CheckpointFact& fact, Instant at, CheckpointBook* book) {
  std::visit(BookFolder{*book, at}, fact);
}

bool IsStoredSince(const CheckpointBook& book, int64_t step, std::optional<uint32_t> commits) {
  return book.committed.has_value() && (book.committed->saved.step > step ||
                                        (commits.has_value() && book.commits >= *commits + 2));
}

bool IsGivenUp(const CheckpointBook& book, SavedStep saved) {
  const RestoreDecided& former = book.restore;
  return saved.generation < former.generation.value() && saved > former.saved;
}

bool IsEndedWithout(const CheckpointBook& book, SavedStep saved) {
  return book.not_stored.has_value() && book.not_stored->is_final &&
         saved <= book.not_stored->saved;
}

}  // namespace paceline::core
