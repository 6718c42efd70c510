#pragma once

// Volatile: the tests of links between pairs of hosts that are under way; see pair_tests.h.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/diagnose/pairs.h"
#include "paceline/model/ids.h"
#include "paceline/model/link_test.h"

namespace paceline::core {

struct PairHost {
  NodeId node;
  ConnectionId connection;
  bool is_known = false;  // tested before, and perhaps training: it only helps to test the others
};

// A pair of the round that is under way.
struct RunningPair {
  diagnose::Pair pair;
  std::array<std::optional<LinkTested>, 2> told;  // by the lower host, and by the higher one
};

// What all tests of one pair have shown.
struct PairTests {
  diagnose::PairTried last;
  uint32_t failures = 0;
  bool has_passed = false;
  bool is_counted = false;  // `last` is in these two
};

struct PairWatch {
  std::set<NodeId> untested;    // members without ranks whose links were not tested yet
  std::vector<PairHost> hosts;  // a pair has their numbers; empty: no test is under way
  Instant began_at;
  std::vector<std::vector<diagnose::Pair>> rounds;  // still to come, the next one last
  uint32_t repeats = 0;                             // times that failed pairs were tested again
  std::vector<RunningPair> running;
  uint64_t round = 0;     // of the running one; never the same for two masters of a job
  Instant due;            // of the running one
  int64_t open = 0;       // pairs of it that have not both told
  bool has_loss = false;  // a node has left since the last look
  std::map<diagnose::Pair, PairTests> tests;
  bool is_on() const { return !hosts.empty(); }
};

}  // namespace paceline::core
