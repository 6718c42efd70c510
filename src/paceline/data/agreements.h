#pragma once

// Whether the ranks of a world read their data in one order: each rank reports eight bytes of what
// it reads at a place of a loader, and all that have the loader are told once two reports differ.
//
// No rank waits: the first report of a place is kept, later ones are compared with it. A loader
// that one rank alone has is compared with nothing. Nothing is durable, because processes report
// again to a new master, and a new world begins anew.

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
  static constexpr size_t kPlacesMax = 64;      // of a loader, the highest; an epoch is one
  static constexpr size_t kPeersMax = 65'536;   // of a loader; further ones are told nothing

  // A kAgree of `from`.
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
    uint64_t first = 0;  // ranks
    uint64_t second = 0;
  };
  struct Loader {
    std::map<uint64_t, Report> places;  // the first report of each
    std::set<LeasePeer> peers;
    std::optional<Difference> difference;
  };

  uint64_t generation_ = 0;  // the newest that was heard of
  std::map<std::string, Loader> loaders_;
};

}  // namespace paceline
