#pragma once

// A worker's connection to a table server of another host. Both speak over Unix sockets of their
// own host; their agents carry the bytes between the two, over TCP with the bulk channel's proof,
// and TLS with the job's certificates. docs/formats/table_frames.md.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/fd.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/bulk/proven_server.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

inline constexpr std::string_view kTableMagic = "paceline rows 1\n";

// The end at the server's host.
class TableGate {
 public:
  static constexpr size_t kConnectionsMax = 4'096;
  // Connects to the table server; closed: it is away. Called on threads of the gate.
  using Dial = std::function<Fd()>;

  // `listen`: HOST:PORT. Without certificates it serves other hosts, too: the job's user has
  // allowed that with --insecure. The process must ignore SIGPIPE.
  static absl::StatusOr<std::unique_ptr<TableGate>> Start(const std::string& listen,
                                                          const Credentials& credentials,
                                                          Dial dial);
  int port() const { return server_->port(); }

 private:
  std::unique_ptr<ProvenServer> server_;
};

// The end at the worker's host: joins `local` with the gate at `address` (HOST:PORT) until either
// side ends. Blocks; a shutdown of `local` ends it. Until the gate answers, nothing is read of
// `local`. An error: there is no such gate now.
absl::Status CarryToGate(const Fd& local, const std::string& address,
                         const Credentials& credentials, const BulkTls& tls);

}  // namespace paceline::wire
