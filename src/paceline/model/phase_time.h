#pragma once

// The phases of a rank's training, and how long it spent in each.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "paceline/base/instant.h"
#include "paceline/model/ids.h"

namespace paceline {

// A rank's phase of training. After an optimizer's step it is kUnknown until the hooks see the next
// phase, because the script may compute metrics, sample or upload.
enum class RankPhase : uint32_t {
  kStart = 0,  // from the script's first line to its first step
  kData = 1,
  kForward = 2,
  kBackward = 3,
  kOptimizer = 4,
  kCheckpoint = 5,
  kCompile = 6,
  kEvaluation = 7,
  kUnknown = 8,
  kEnd = 9,  // the script has returned
  kRestore = 10,
};
inline constexpr uint32_t kRankPhases = 11;
std::string_view PhaseName(
    RankPhase phase);  // "data", "forward", …; "unknown" for any other number

struct PhaseTimes {
  std::array<Duration, kRankPhases> of = {};  // by RankPhase
  Duration waited;                            // in collectives; a part of the phases' time
  bool operator==(const PhaseTimes&) const = default;
};

// The times of a rank's attempt until one moment, as its agent read them.
struct RankTimes {
  Generation generation;
  Rank rank;
  PhaseTimes times;  // also of the phase that lasts
  RankPhase phase = RankPhase::kStart;
  bool has_ended = false;  // then no phase lasts
  bool is_piped = false;   // StepSums::is_piped
  bool operator==(const RankTimes&) const = default;
};

// What the ranks of a world did, as far as a job's goodput tells it apart.
enum class TimePart {
  kStart,       // until the script's first phase; the script's own work if it tells no phases
  kWork,        // forward to optimizer, and what the script does between two steps
  kStraggler,   // waiting longer than the rank that waited least
  kData,        // in the loader
  kCheckpoint,  // the script stood still for a save
  kRestore,
  kCompile,
  kEvaluation,
  kEnd,  // the script has returned
};
inline constexpr size_t kTimeParts = 9;

// Milliseconds of all ranks together, by TimePart. Nanoseconds of 10,000 ranks would overflow after
// ten days.
using PartSums = std::array<int64_t, kTimeParts>;

}  // namespace paceline
