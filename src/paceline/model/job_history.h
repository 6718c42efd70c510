#pragma once

// What one run of a job measured, for later runs of the same script. It has no arguments, paths or
// environment. docs/formats/history.md.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/size_speed.h"

namespace paceline {

struct JobHistory {
  std::string run;        // id of the job
  std::string signature;  // equal for two runs of the same script on like hosts
  std::string name;       // of the job, for people
  std::string device;     // of the master's host, for people
  int64_t at_ms = 0;      // of the newest measurement, since the Unix epoch
  // The ranks shared a global batch, so that a step was the same work at each size.
  bool shares_batch = false;
  std::vector<SizeSpeed> curve;  // by rising size
  bool operator==(const JobHistory&) const = default;
};

}  // namespace paceline
