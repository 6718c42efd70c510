// How long a worker has waited for each table server: it says so on stderr after two seconds, and
// gives up at a bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/result.h"

namespace paceline::client {

class ServerWaits {
 public:
  ServerWaits(size_t servers, int64_t patience_ns) : patience_ns_(patience_ns), waits_(servers) {}

  void Grow(size_t servers) { waits_.resize(servers); }
  // The server owes nothing now.
  void Answered(size_t server, int64_t now_ns);
  // It owes an answer, because of `why`. kSystem: it was away for too long.
  Result<void> Owes(size_t server, const std::string& why, int64_t now_ns);

  static std::string NameOf(size_t server);

 private:
  struct Wait {
    int64_t since_ns = 0;  // 0: no answer is outstanding
    bool is_told = false;
  };
  const int64_t patience_ns_;
  std::vector<Wait> waits_;  // by server
};

}  // namespace paceline::client
