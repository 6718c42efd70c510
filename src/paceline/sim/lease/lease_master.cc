#include "paceline/sim/lease/lease_master.h"

#include <algorithm>

namespace paceline::sim {

void LeaseMaster::Boot() {
  LeaseActions actions;
  book_.Boot(book_.first_lease() + 1'000'000, &actions);
  base_ = journal_.size();
  Keep(&actions);
  durable_ = journal_.size();  // before any worker is answered
}

void LeaseMaster::Keep(LeaseActions* actions) {
  for (LeaseFact& fact : actions->facts) journal_.push_back(std::move(fact));
  for (LeaseAnswer& answer : actions->answers) {
    const uint64_t after = answer.after == 0 ? 0 : base_ + answer.after;
    if (bugs_.confirms_early || after <= durable_) {
      send_(answer);
    } else {
      waiting_.emplace_back(after, std::move(answer));
    }
  }
}

void LeaseMaster::Flush(bool all, Prng* prng) {
  durable_ += prng->Below(journal_.size() - durable_ + 1);
  if (all) durable_ = journal_.size();
  while (!waiting_.empty() && waiting_.front().first <= durable_) {
    send_(waiting_.front().second);
    waiting_.pop_front();
  }
}

void LeaseMaster::Crash(Prng* prng) {
  size_t kept = durable_;
  if (bugs_.loses_facts) kept -= std::min<size_t>(kept, prng->Below(4));
  journal_.resize(kept);
  waiting_.clear();
  book_ = LeaseBook();
  for (const LeaseFact& fact : journal_) book_.Restore(fact);
  Boot();
}

}  // namespace paceline::sim
