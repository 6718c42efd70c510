#include "paceline/cli/trace/ring_tour.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "paceline/agent/socket/reactor.h"

namespace paceline::cli {
namespace {

// Nodes that are asked at the same time. The master holds an answer of each.
constexpr size_t kAskersMax = 8;
// Longer than the master waits for an agent.
constexpr Duration kRingPatience = Duration::Seconds(8);
constexpr Duration kTourPatience = Duration::Seconds(60);

// The nodes of one tour, which threads take one after the other.
class Tour {
 public:
  Tour(wire::ControlClientOptions master, std::vector<std::string> names, Duration last)
      : master_(std::move(master)),
        names_(std::move(names)),
        last_(last),
        until_ns_(agent::MonotonicNs() + kTourPatience.nanoseconds()) {
    master_.timeout = kRingPatience;
  }

  RingTour Make() {
    std::vector<std::thread> askers;
    for (size_t i = 0; i < std::min(kAskersMax, names_.size()); ++i) {
      askers.emplace_back([this] { AskNodes(); });
    }
    for (std::thread& asker : askers) asker.join();
    const std::lock_guard lock(mutex_);
    for (const std::string& name : names_) {
      const auto why = silent_.find(name);
      if (why != silent_.end()) tour_.silent.push_back({name, why->second});
    }
    return std::move(tour_);
  }

 private:
  void AskNodes() {
    wire::ControlClient client(master_);
    for (size_t i = next_++; i < names_.size(); i = next_++) {
      NodeRings rings(names_[i], last_);
      const std::string why = AskNode(&client, &rings);
      const std::lock_guard lock(mutex_);
      if (!why.empty()) silent_[names_[i]] = why;
      if (!rings.boot_id().empty()) tour_.nodes.push_back(std::move(rings));
    }
  }

  // Returns why the node has not told everything; "": it has.
  std::string AskNode(wire::ControlClient* client, NodeRings* rings) {
    while (!rings->is_complete()) {
      if (records_ >= kTraceRecordsMax) {
        const std::lock_guard lock(mutex_);
        tour_.is_cut = true;
        return "";
      }
      if (agent::MonotonicNs() >= until_ns_) return "no time was left to ask its agent";
      const auto reply = client->ReadRings({rings->node(), rings->at()});
      if (!reply.ok()) return std::string(reply.status().message());
      {
        const std::lock_guard lock(mutex_);
        tour_.boot_id = reply->boot_id;
        tour_.now = reply->now;
      }
      if (!reply->silence.empty()) return reply->silence;
      auto part = wire::DecodeRingPart(reply->content);
      const size_t had = rings->records();
      if (!part.ok() || !rings->Take(*std::move(part))) return "its answer cannot be read";
      records_ += rings->records() - std::min(had, rings->records());
    }
    return "";
  }

  wire::ControlClientOptions master_;
  const std::vector<std::string> names_;
  const Duration last_;
  const int64_t until_ns_;
  std::atomic<size_t> next_ = 0;
  std::atomic<size_t> records_ = 0;
  std::mutex mutex_;
  RingTour tour_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> silent_ ABSL_GUARDED_BY(mutex_);  // why, by node
};

}  // namespace

RingTour TourRings(const wire::ControlClientOptions& master, const std::vector<std::string>& names,
                   Duration last) {
  return Tour(master, names, last).Make();
}

}  // namespace paceline::cli
