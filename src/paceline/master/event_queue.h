#pragma once

// Events from gRPC's, the journal's and the HTTP server's threads for the loop.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/master/journal/journal.h"
#include "paceline/model/table_routing.h"
#include "paceline/wire/server/master_server.h"

namespace paceline::master {

struct MetricsAsked {
  std::function<void(std::string)> reply;  // call once, from any thread
};
struct HealthAsked {
  std::function<void(std::string)> reply;
};
struct PulseAsked {
  std::function<void(std::string)> reply;  // with one line of JSON; on the loop's thread
};
// For the page: the status without nodes and ranks, which it does not show.
struct BriefAsked {
  std::function<void(wire::JobStatus)> reply;
};
struct HeatAsked {
  uint64_t known = 0;                      // the version that the reader has; 0: none
  std::function<void(std::string)> reply;  // docs/formats/heat.md; on the loop's thread
};
// A table server has received partitions of another one.
struct TablesTaken {
  PartitionsTaken taken;
};
using MasterEvent = std::variant<wire::ServerEvent, JournalEvent, MetricsAsked, HealthAsked,
                                 PulseAsked, BriefAsked, HeatAsked, TablesTaken>;

// The feed of the job's page, among the watchers of events.
inline constexpr wire::WatchId kPageWatch{UINT64_MAX};

// True for a heartbeat without news.
inline bool CanWait(const MasterEvent& event) {
  const auto* server = std::get_if<wire::ServerEvent>(&event);
  const auto* said = server == nullptr ? nullptr : std::get_if<wire::AgentSaid>(server);
  return said != nullptr && std::holds_alternative<wire::Heartbeat>(said->message);
}

// A heartbeat is taken at once if the loop is idle. Heartbeats within kGather of the last one are
// taken together, because waking the loop 10,000 times a second would cost more than its work. Any
// other event is taken at once, with all earlier ones.
class EventQueue {
 public:
  // Each agent has at most a few messages in flight, so this suffices for the largest job. A sender
  // without room is disconnected and reconnects.
  static constexpr size_t kEventsMax = 100'000;
  static constexpr std::chrono::milliseconds kGather{2};

  // Returns false if there is no room.
  bool TryPost(MasterEvent event) { return Put(std::move(event), kEventsMax); }
  // For events that must not be lost; the number of connections bounds them.
  void Post(MasterEvent event) { Put(std::move(event), SIZE_MAX); }

  // All events posted so far. Waits for the first one, at most for `timeout`.
  std::vector<MasterEvent> Take(Duration timeout) {
    std::unique_lock lock(mutex_);
    const std::chrono::nanoseconds longest(timeout.nanoseconds());
    if (took_beats_ && longest > kGather) {
      changed_.wait_for(lock, kGather, [&] { return is_urgent_; });
    }
    is_resting_ = true;
    const auto has_some = [&] { return !events_.empty(); };
    if (timeout.is_infinite()) {
      changed_.wait(lock, has_some);
    } else {
      changed_.wait_for(lock, longest, has_some);
    }
    is_resting_ = false;
    is_urgent_ = false;
    took_beats_ = std::exchange(has_beats_, false);
    return std::exchange(events_, {});
  }

 private:
  bool Put(MasterEvent event, size_t count_max) {
    const bool can_wait = CanWait(event);
    const std::lock_guard lock(mutex_);
    if (events_.size() >= count_max) return false;
    const bool was_awaited = is_urgent_ || (is_resting_ && !events_.empty());
    events_.push_back(std::move(event));
    has_beats_ = has_beats_ || can_wait;
    is_urgent_ = is_urgent_ || !can_wait;
    if (!was_awaited && (is_resting_ || is_urgent_)) changed_.notify_one();
    return true;
  }

  std::mutex mutex_;  // guards the members below
  std::vector<MasterEvent> events_;
  bool is_resting_ = false;  // the loop waits for an event
  bool is_urgent_ = false;   // one of the events cannot wait
  bool has_beats_ = false;   // one of them is a heartbeat
  bool took_beats_ = false;  // the last batch had a heartbeat
  std::condition_variable changed_;
};

}  // namespace paceline::master
