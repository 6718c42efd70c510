#pragma once

// The events of a run, as a running hash and, on request, as one aligned line each. Two runs of one
// seed must end with the same hash, which proves that the simulator is deterministic.

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "paceline/base/instant.h"

namespace paceline::sim {

class Trace {
 public:
  // With `out` null only the hash is computed.
  explicit Trace(std::FILE* out) : out_(out) {}

  bool is_full() const { return out_ != nullptr; }
  uint64_t hash() const { return hash_; }

  // `who` is "master", "n3", …; `what` is a literal; `number` distinguishes two such events. `text`
  // is for people and not hashed, so callers may omit it if there is no log.
  void Add(Instant at, std::string_view who, std::string_view what, uint64_t number = 0,
           std::string_view text = {});

 private:
  void Mix(uint64_t word);
  void Mix(std::string_view text);

  std::FILE* out_;
  uint64_t hash_ = 0xcbf2'9ce4'8422'2325ULL;
};

}  // namespace paceline::sim
