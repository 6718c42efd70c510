#pragma once

// Which runs are alike: those with the same script on a like host. The script's bytes count, not
// its path or arguments.

#include <string>

#include "paceline/model/job_spec.h"

namespace paceline::master {

// 32 hexadecimal digits.
std::string SignatureOf(const LaunchSpec& launch, const std::string& device);

// The processor's name and the number of processors, and the kinds of the GPUs: "EPYC 9354 x 64, 8
// x NVIDIA H200". `root`: before the paths in /proc; for tests.
std::string DeviceOf(const std::string& root = "");

}  // namespace paceline::master
