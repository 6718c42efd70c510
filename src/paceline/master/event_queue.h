#pragma once

// What gRPC's, the journal's and the HTTP server's threads tell the loop.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/master/journal.h"
#include "paceline/wire/master_server.h"

namespace paceline::master {

struct MetricsAsked {
  std::function<void(std::string)> reply;  // call once, from any thread
};
struct HealthAsked {
  std::function<void(std::string)> reply;
};
using MasterEvent = std::variant<wire::ServerEvent, JournalEvent, MetricsAsked, HealthAsked>;

class EventQueue {
 public:
  // Each agent has at most a few messages on the way, so this is room for every agent of the
  // largest job; who finds no room is cut off and comes back.
  static constexpr size_t kEventsMax = 100'000;

  // False: no room.
  bool TryPost(MasterEvent event) { return Put(std::move(event), kEventsMax); }
  // For what must not be lost; its number is bounded by the number of connections.
  void Post(MasterEvent event) { Put(std::move(event), SIZE_MAX); }

  // Everything posted so far; waits for the first one, at most for `timeout`.
  std::vector<MasterEvent> Take(Duration timeout) {
    std::unique_lock lock(mutex_);
    const auto has_some = [&] { return !events_.empty(); };
    if (timeout.is_infinite()) {
      changed_.wait(lock, has_some);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(timeout.nanoseconds()), has_some);
    }
    return std::exchange(events_, {});
  }

 private:
  bool Put(MasterEvent event, size_t count_max) {
    const std::lock_guard lock(mutex_);
    if (events_.size() >= count_max) return false;
    events_.push_back(std::move(event));
    if (events_.size() == 1) changed_.notify_one();
    return true;
  }

  std::mutex mutex_;  // guards the one below
  std::vector<MasterEvent> events_;
  std::condition_variable changed_;
};

}  // namespace paceline::master
