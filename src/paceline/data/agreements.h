#pragma once

// Checks that the ranks of a world read their data in one order. Each rank reports eight bytes for
// a place of a loader. If two reports differ, all ranks with that loader are told.
//
// No rank waits: later reports are compared with a place's first report. A loader that only one
// rank has is compared with nothing. Nothing is durable, because processes report again to a new
// master, and a new world starts anew.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/data/lease/lease_peer.h"

namespace paceline {

class Agreements {
 public:
  static constexpr size_t kLoadersMax = 1'024;  // further ones are not compared
  static constexpr size_t kPlacesMax = 64;      // the highest of a loader; an epoch is one place
  static constexpr size_t kPeersMax = 65'536;   // of a loader; further ones get no message

  // Handles a kAgree of `from`.
  void Take(const LeasePeer& from, const LeaseFrame& frame, std::vector<LeaseAnswer>* answers);
  void Leave(const LeasePeer& peer);
  void LeaveAll(uint64_t link);

 private:
  struct Report {
    uint64_t rank = 0;
    uint64_t digest = 0;
  };
  struct Difference {
    uint64_t place = 0;
    uint64_t first = 0;  // rank
    uint64_t second = 0;
  };
  struct Loader {
    std::map<uint64_t, Report> places;  // each place's first report
    std::set<LeasePeer> peers;
    std::optional<Difference> difference;
  };

  uint64_t generation_ = 0;  // the newest seen
  std::map<std::string, Loader> loaders_;
};

}  // namespace paceline
