#pragma once

// Stacks of Python processes by py-spy. It reads the memory of a process from outside, so it works
// without the GIL and on a process that hangs.

#include <sys/types.h>

#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/evidence.h"

namespace paceline::agent {

struct StackSample {
  std::vector<StackFrame> frames;  // of the main thread, innermost first
  std::string problem;             // why there are no frames
};

class StackSampler {
 public:
  // `python` is the job's interpreter. Its py-spy is preferred to one in PATH.
  explicit StackSampler(const std::string& python);

  // Blocks for at most `patience`. py-spy's output is kept at `path`, mode 0600.
  StackSample Sample(pid_t pid, const std::string& path, Duration patience) const;

 private:
  std::string program_;  // empty: py-spy is missing
};

// The main thread's frames of process `pid` in py-spy's JSON. A malformed text gives a problem.
StackSample ParseStacks(const std::string& text, pid_t pid);

}  // namespace paceline::agent
