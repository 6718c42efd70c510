#pragma once

// What the ranks told of their time, and how that divides a stretch of steps.
//
// The stretch is the axis: its length comes from records, not from the ranks. What the ranks told
// only divides it. If they told less, the rest is unknown. If they told more, the next stretch
// takes the excess, because agents read times at other moments than the master makes records. The
// excess that is left at the end of a world is overcounted.

#include <array>
#include <optional>

#include "paceline/core/goodput/time_class.h"
#include "paceline/core/record.h"
#include "paceline/model/phase_time.h"

namespace paceline::core {

using ClassSeconds = std::array<double, kTimeClasses>;
using PartSeconds = std::array<double, kTimeParts>;  // by TimePart

class ToldTime {
 public:
  // The rank-seconds since the record before this one, of the same generation.
  struct Since {
    PartSeconds seconds = {};
    bool is_first = false;  // of its generation: since the ranks were started
    bool is_known = true;   // false: the record cannot be compared with the one before
  };
  // None: fewer ranks told than before, or those of an older world. The next record has it all.
  std::optional<Since> Take(const TimeAccounted& fact);
  // A part of the journal is lost: the next record cannot be compared.
  void Forget() { is_lost_ = true; }

 private:
  std::optional<TimeAccounted> last_;
  bool were_fewer_ = false;  // in the last record, which was left out for that
  bool is_lost_ = false;
};

// Divides a stretch of `axis` slot-seconds by what the ranks told of it, and returns the
// slot-seconds that are not productive, by class. Ranks may tell more time than a stretch has:
// `*carry` brings what earlier stretches had no room for, and takes what this one leaves.
ClassSeconds Divide(const PartSeconds& told, double axis, double* carry);

}  // namespace paceline::core
