#pragma once

// Which way a host takes to its master: over one of the job's relays, or itself. Pure.
//
// Relays are tried in an order of this host's own, by rendezvous hashing (Thaler and Ravishankar,
// 1998): each relay gets an even share, and when one dies its share is spread evenly over the
// others. At most kRelaysTried of them are tried, kRounds times over, and then the master itself:
// at the start of a large job the relays come up in the same second as everybody else, and ten
// thousand hosts must not run to the master because of that.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire {

class Route {
 public:
  static constexpr size_t kRelaysTried = 4;
  static constexpr size_t kRounds = 3;

  // `who` is this host's name for the hash: the same one gives the same order.
  Route(std::string master, const std::vector<std::string>& relays, std::string_view who);

  const std::string& address() const;
  bool is_relay() const;

  // An attempt that never opened: the next way's turn. A stream that was open and broke is no
  // reason to leave: its relay, or the master behind it, is most likely back at once.
  void Failed();

 private:
  std::string master_;
  std::vector<std::string> relays_;  // best first
  size_t attempt_ = 0;               // of relays_.size() * kRounds + 1
};

}  // namespace paceline::wire
