#pragma once

// What a table server of this host says of its tables and its work.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/cli/console/environment.h"

namespace paceline::cli {

struct ServedTable {
  std::string name;
  uint32_t dim = 0;
  std::string optimizer;
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t budget_bytes = 0;  // 0: none
  uint64_t admitted = 0;      // keys
  uint64_t refused = 0;       // times that a key got no row
  bool is_closed = false;
};

struct ServerCounts {
  uint32_t server = 0;
  uint64_t pulls = 0;
  uint64_t applied = 0;  // pushes
  uint64_t skipped = 0;
  uint64_t refused = 0;
  uint64_t longest_ns = 0;  // of one request
  uint64_t partitions = 0;  // that it has
  std::vector<ServedTable> tables;
  uint64_t rows() const;
  uint64_t bytes() const;
};

// The counts of one table server. None: the server does not answer within `patience_ms`, or is on
// another host.
std::optional<ServerCounts> CountsOfServer(const Environment& environment,
                                           const std::string& run_dir, uint32_t server,
                                           int patience_ms);

}  // namespace paceline::cli
