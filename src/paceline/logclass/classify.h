#pragma once

// The class of one rank's failure.

#include <string_view>

#include "paceline/logclass/rule_set.h"

namespace paceline::logclass {

// What is known of a rank that died; each part may be empty.
struct DeathTexts {
  std::string_view exception;  // "KeyError: 'labels'", by its error record
  bool is_own_code = false;    // the exception is one of the script's own code
  std::string_view own_line;   // the kernel's line about its process
  std::string_view stderr_tail;
  std::string_view kernel_lines;  // new lines of the kernel that are about no rank
  std::string_view headline;      // of a death by a signal, e.g. "killed by SIGSEGV"
};

// Null if no class fits. The kernel's line about the process decides, then the exception, then
// stderr, then what the kernel says of the host. A consequence of another failure is chosen only if
// none of these has a cause.
const Rule* Classify(const RuleSet& rules, const DeathTexts& texts);

}  // namespace paceline::logclass
