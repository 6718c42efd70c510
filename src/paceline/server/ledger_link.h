#pragma once

// What a table server tells the ledger of leases, at its start and over the socket of its agent:
// which batches its tables have. The ledger frees all others of the job's batches, so that they are
// leased and pushed again, and ends all leases. A worker whose push was answered by the server's
// earlier process then learns that its work does not count.

#include <cstdint>
#include <optional>
#include <string>

namespace paceline::server {

struct TablesHave {
  uint32_t server = 0;
  uint64_t restarts = 0;  // 0: no worker has pushed to an earlier process of it
  std::string text;       // HaveText
};

struct Freed {
  uint64_t count = 0;    // ordinals
  uint64_t counted = 0;  // ordinals that were done before
  std::string text;      // which, as in HaveText
};

// Tells the ledger, and repeats it until the ledger has answered. None: it had not answered some
// seconds after a signal had come (`signals` became readable).
std::optional<Freed> TellLedger(const std::string& socket, const TablesHave& have, int signals);

}  // namespace paceline::server
