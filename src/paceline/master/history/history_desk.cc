#include "paceline/master/history/history_desk.h"

#include <utility>

namespace paceline::master {

void HistoryDesk::Start(HistoryKeeper* keeper, JobHistory own) {
  keeper_ = keeper;
  own_ = std::move(own);
}

void HistoryDesk::Recall(core::ScaleDesk* desk) {
  if (keeper_ != nullptr) desk->Remember(keeper_->Earlier());
}

void HistoryDesk::Note(Instant now, const core::ScaleDesk& desk) {
  if (keeper_ == nullptr || now < due_) return;
  due_ = now + kInterval;
  Put(now, desk);
}

void HistoryDesk::Close(Instant now, const core::ScaleDesk& desk) {
  if (keeper_ != nullptr) Put(now, desk);
}

void HistoryDesk::Put(Instant now, const core::ScaleDesk& desk) {
  JobHistory history = own_;
  history.at_ms = now.nanoseconds() / 1'000'000;
  history.shares_batch = desk.shares_batch();
  history.curve = desk.Measured();
  if (!history.curve.empty()) keeper_->Put(std::move(history));
}

}  // namespace paceline::master
