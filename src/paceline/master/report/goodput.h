#pragma once

// The share of a job's time in which new steps were made, from its records. Time starts with the
// first world, and stands still while the job is over, until it is resumed. It counts while a world
// trains beyond the furthest step so far. Repeated steps, detection and restarts do not count.

#include <optional>

#include "paceline/base/instant.h"
#include "paceline/core/record.h"

namespace paceline::master {

class Goodput {
 public:
  void Fold(const core::Record& record);
  // 0 … 1; 0 before the first world.
  double Share(Instant now) const;

 private:
  void Begin(Instant at);
  void End(Instant at);

  std::optional<Instant> first_world_at_;  // later by the time in which the job was over
  std::optional<Instant> finished_at_;
  std::optional<Instant> training_since_;
  // A world failed or the job was over, and lost steps are not all repeated yet.
  bool is_redoing_ = false;
  Duration trained_;
};

}  // namespace paceline::master
