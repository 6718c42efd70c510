#pragma once

// Internals of the worlds of leases: the host of the ledger. It has the production LeaseBook and a
// disk that is late: a fact becomes durable in `Flush`, and an answer that promises something is
// sent only then. A crash loses everything that is not durable.

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/data/lease/lease_book.h"

namespace paceline::sim {

class LeaseMaster {
 public:
  using Send = std::function<void(const LeaseAnswer&)>;

  // Planted bugs of the host.
  struct Bugs {
    bool confirms_early = false;  // answers before its disk has the fact
    bool loses_facts = false;     // a crash loses durable facts
  };

  LeaseMaster(Bugs bugs, Send send) : bugs_(bugs), send_(std::move(send)) { Boot(); }

  LeaseBook& book() { return book_; }
  const LeaseBook& book() const { return book_; }
  const std::vector<LeaseFact>& journal() const { return journal_; }
  size_t durable() const { return durable_; }  // facts of the journal

  // Takes over the facts and answers of one event of the book.
  void Keep(LeaseActions* actions);
  // Some more facts become durable, or `all`.
  void Flush(bool all, Prng* prng);
  // The host dies. The next one has the durable facts.
  void Crash(Prng* prng);

 private:
  void Boot();

  const Bugs bugs_;
  const Send send_;
  LeaseBook book_;
  std::vector<LeaseFact> journal_;
  size_t base_ = 0;  // facts before this host
  size_t durable_ = 0;
  std::deque<std::pair<uint64_t, LeaseAnswer>> waiting_;
};

}  // namespace paceline::sim
