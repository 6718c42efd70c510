#pragma once

// Share of a job's time in which new steps were made, folded from its records: time runs from the
// first world's formation; it counts while a world trains beyond what was reached before. What is
// redone after a failure does not count, and neither does detection or restart.

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

  std::optional<Instant> first_world_at_;
  std::optional<Instant> finished_at_;
  std::optional<Instant> training_since_;
  bool is_redoing_ = false;  // a world failed and its steps are not made up for yet
  Duration trained_;
};

}  // namespace paceline::master
