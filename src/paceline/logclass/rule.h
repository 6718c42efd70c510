#pragma once

// One row of a rule file: which text belongs to which class of failures, and what mends it.
//
//   [[rule]]
//   class = "disk_full"
//   role = "cause"
//   rung = "R9"
//   pattern = 'No space left on device'
//   advice = "free space on the file system that the message names"
//   example = "OSError: [Errno 28] No space left on device"
//
// Texts are matched line by line. A line belongs to the first rule of all files that matches, so
// the order of the rules counts.

#include <cstdint>
#include <string>

#include "paceline/model/node.h"

namespace paceline::logclass {

struct Rule {
  std::string name;  // `class`: lower case, digits and underscores; unique
  ExitCause::Role role = ExitCause::Role::kNone;
  std::string rung;     // R0 … R9: what helps, as the guide's page explains it
  std::string pattern;  // RE2's syntax, searched in one line
  std::string advice;   // a phrase in the imperative, e.g. "free space on the disk"
  std::string example;  // a line from a public report; it must belong to this rule
  // Such lines are also printed by what recovers, or with a better explanation beside them. Any
  // other class of a text is preferred.
  bool is_general = false;
  // A line of the kernel's log counts only if it is about the rank's own process.
  bool is_own = false;
  std::string file;   // where the rule stands, as users see it
  uint32_t line = 0;  // of its [[rule]]
};

}  // namespace paceline::logclass
