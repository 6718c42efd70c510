#pragma once

// Stacks of Python processes, by py-spy, which reads a process's memory from outside: it needs
// neither the interpreter lock nor a process that runs.

#include <sys/types.h>

#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/evidence.h"

namespace paceline::agent {

struct StackSample {
  std::vector<StackFrame> frames;  // of the main thread, innermost first
  std::string problem;             // why there are none
};

class StackSampler {
 public:
  // `python` is the job's interpreter: its own py-spy comes before one in PATH.
  explicit StackSampler(const std::string& python);

  // Blocks, at most for `patience`; what py-spy says is kept at `path`, mode 0600.
  StackSample Sample(pid_t pid, const std::string& path, Duration patience) const;

 private:
  std::string program_;  // empty: there is none
};

// The frames of the main thread of process `pid` in py-spy's JSON. A text that is no such JSON
// gives a problem.
StackSample ParseStacks(const std::string& text, pid_t pid);

}  // namespace paceline::agent
