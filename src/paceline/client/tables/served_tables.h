// The tables of a job on its table servers. A lookup is divided by partition, with one request to
// each server on its way at once. A push goes to every server.
#pragma once

#include <memory>
#include <string>

#include "paceline/base/result.h"
#include "paceline/client/tables/tables.h"

namespace paceline::client {

struct TableServers {
  std::string sockets;  // of all servers in the order of their numbers, with commas between them
  std::string job_id;
  // A call that waits longer than this for a server fails.
  Duration patience = Duration::Seconds(600);
};

// Does not connect yet. kInvalid: there are no sockets.
Result<std::unique_ptr<Tables>> OpenServedTables(const TableServers& servers);

}  // namespace paceline::client
