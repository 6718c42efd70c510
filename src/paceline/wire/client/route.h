#pragma once

// A host's route to its master: through one of the job's relays, or directly. Pure.
//
// Each host tries the relays in an order of its own, by rendezvous hashing (Thaler and Ravishankar,
// 1998): each relay gets an equal share of hosts, and a dead relay's share is spread over the
// others. At most kRelaysTried relays are tried, kRounds times, and then the master: at the start
// of a large job the relays start together with all hosts, and ten thousand hosts must not connect
// to the master for that reason.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire {

class Route {
 public:
  static constexpr size_t kRelaysTried = 4;
  static constexpr size_t kRounds = 3;

  // `who` is this host's name for the hash. The same name gives the same order.
  Route(std::string master, const std::vector<std::string>& relays, std::string_view who);

  const std::string& address() const;
  bool is_relay() const;

  // An attempt never opened: try the next route. A stream that was open and broke does not change
  // the route, because its relay, or the master behind it, is probably back at once.
  void Failed();

 private:
  std::string master_;
  std::vector<std::string> relays_;  // best first
  size_t attempt_ = 0;               // of relays_.size() * kRounds + 1
};

}  // namespace paceline::wire
