#include "paceline/core/checkpoint_book.h"

#include <algorithm>

namespace paceline::core {
namespace {

struct BookFolder {
  CheckpointBook& book;

  void operator()(const RestoreDecided& fact) {
    book.restore = fact;
    if (fact.from == RestoreOrder::From::kMemory) ++book.memory_restores;
    if (fact.from == RestoreOrder::From::kStorage) ++book.storage_restores;
  }
  void operator()(const CheckpointCommitted& fact) {
    book.committed = fact;
    ++book.commits;
  }
  void operator()(const CheckpointDamaged& fact) {
    if (std::find(book.damaged.begin(), book.damaged.end(), fact.name) != book.damaged.end()) {
      return;
    }
    // The oldest one is forgotten: retention has long removed it.
    if (book.damaged.size() == kDamagedMax) book.damaged.erase(book.damaged.begin());
    book.damaged.push_back(fact.name);
    if (book.committed.has_value() && book.committed->name == fact.name) book.committed.reset();
  }
};

}  // namespace

void Apply(const CheckpointFact& fact, CheckpointBook* book) {
  std::visit(BookFolder{*book}, fact);
}

bool IsGivenUp(const CheckpointBook& book, SavedStep saved) {
  const RestoreDecided& former = book.restore;
  return saved.generation < former.generation.value() && saved > former.saved;
}

}  // namespace paceline::core
