#pragma once

// Virtual time: one queue of tasks, ordered by time and then by insertion. All code runs from the
// queue, so a run depends on its seed alone.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"

namespace paceline::sim {

using Task = std::function<void()>;

class EventQueue {
 public:
  Instant now() const { return now_; }
  uint64_t ran() const { return ran_; }
  size_t size() const { return heap_.size(); }
  bool empty() const { return heap_.empty(); }
  Instant next_at() const { return heap_.empty() ? Instant::Max() : heap_.front().at; }

  // A past time means now. Tasks of one time run in the order of these calls.
  void At(Instant at, Task task);
  void After(Duration delay, Task task) { At(now_ + delay, std::move(task)); }

  // Runs the earliest task. The queue must not be empty.
  void RunNext();

 private:
  struct Entry {
    Instant at;
    uint64_t sequence = 0;
    uint32_t slot = 0;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }

  std::vector<Entry> heap_;
  std::vector<Task> tasks_;  // by slot; the heap moves small entries instead of tasks
  std::vector<uint32_t> free_slots_;
  Instant now_;
  uint64_t sequence_ = 0;
  uint64_t ran_ = 0;
};

}  // namespace paceline::sim
