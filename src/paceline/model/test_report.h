#pragma once

// A healthy node's report, for tests to modify.

#include <string>

#include "paceline/model/node.h"
#include "paceline/model/version.h"

namespace paceline {

inline NodeReport TestReport(const std::string& name) {
  return {.name = name,
          .boot_id = "boot",
          .agent_incarnation = 1,
          .agent_pid = 1234,
          .address = "127.0.0.1",
          .slots = 1,
          .store_port = 30'000,
          .version_major = kVersionMajor,
          .version_minor = kVersionMinor};
}

}  // namespace paceline
