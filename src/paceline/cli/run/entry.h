#pragma once

// What each rank runs: a script, a module or a program, the first word after the flags of
// `paceline run`.

#include <string>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/model/job_spec.h"

namespace paceline::cli {

struct EntrySwitches {
  bool is_module = false;   // --module
  bool is_program = false;  // --no-python
};

// Checks that the first of `words` can be run on this host. The others are its arguments.
Result<EntryKind> FindEntry(const std::vector<std::string>& words, const EntrySwitches& switches,
                            const Environment& environment, const HostFacts& facts);

// The name that a job gets from it: "train" for "train.py".
std::string NameOfTarget(const std::string& target);

}  // namespace paceline::cli
