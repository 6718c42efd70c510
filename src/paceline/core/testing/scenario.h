#pragma once

// Runs a scenario script and returns its output. docs/guides/scenarios.md explains the commands.

#include <string>
#include <vector>

#include "paceline/core/testing/cluster.h"

namespace paceline::core::testing {

struct ScenarioResult {
  std::string error;  // in the script; empty: none
  std::vector<std::string> trace;
  std::vector<Record> journal;
  Phase phase = Phase::kEmpty;
  int exit_code = 0;
  int64_t step = 0;                  // highest step of any world
  std::string final_reason;          // of a finished job
  std::vector<std::string> members;  // names of the nodes that are neither lost nor left
  size_t living_ranks = 0;
  bool has_master_fault = false;  // the script has a command for the master
  std::string rank_conflict;      // must be empty
};

struct ScenarioOptions {
  // The master crashes when the journal first has this many records, with exactly these on disk. 0:
  // never.
  size_t crash_at_record = 0;
  Duration more;  // how long the job runs on after the script
};

ScenarioResult RunScenario(const std::string& script, const ScenarioOptions& options = {});

}  // namespace paceline::core::testing
