#pragma once

// Facts about this host that `paceline run` needs to read a command line. They are read once and
// passed as a value.

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/cli/console/environment.h"

namespace paceline::cli {

struct HostFacts {
  uint32_t cpu_count = 1;             // usable by this process
  std::optional<uint32_t> gpu_count;  // CUDA or ROCm devices visible; unset: no driver
  uint32_t xpu_count = 0;
  std::string host_name;
  std::string cwd;  // absolute; "" when it is gone
  bool cwd_writable = false;
  std::string binary_dir;  // the folder of the paceline binary
};

HostFacts ReadHostFacts(const Environment& environment);

// How many entries of a CUDA_VISIBLE_DEVICES-like list are usable; the list ends at the first
// negative or empty entry, as CUDA reads it.
uint32_t VisibleDevices(const std::string& list, uint32_t present);

// The program that PATH finds, or "".
std::string FindProgram(const Environment& environment, const std::string& name);

}  // namespace paceline::cli
