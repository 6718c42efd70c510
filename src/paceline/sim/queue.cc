#include "paceline/sim/queue.h"

#include <algorithm>

#include "paceline/base/check.h"

namespace paceline::sim {

void EventQueue::At(Instant at, Task task) {
  uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(tasks_.size());
    tasks_.push_back(std::move(task));
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    tasks_[slot] = std::move(task);
  }
  heap_.push_back(Entry{std::max(at, now_), ++sequence_, slot});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

void EventQueue::RunNext() {
  CHECK(!heap_.empty(), "nothing left to run");
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  const Entry entry = heap_.back();
  heap_.pop_back();
  Task task = std::move(tasks_[entry.slot]);
  tasks_[entry.slot] = nullptr;
  free_slots_.push_back(entry.slot);
  now_ = entry.at;
  ++ran_;
  task();
}

}  // namespace paceline::sim
