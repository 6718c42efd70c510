#pragma once

// The same command may be typed twice on one host at the same moment: one `paceline run` starts the
// master, and the other one joins it. Whether a process listens on the port tells which is which
// only if one of them looks at a time.

#include <chrono>
#include <cstdint>
#include <string>

#include "paceline/base/fd.h"

namespace paceline::cli {

// A lock of this user for that port of this host. Waits up to `patience` while another `paceline
// run` has it. The caller closes it when its master serves, or when it does not start one. If the
// result is closed, there is no lock, and the caller can only check whether the port is free.
Fd TakePortTurn(const std::string& runtime_dir, uint16_t port, std::chrono::milliseconds patience);

}  // namespace paceline::cli
