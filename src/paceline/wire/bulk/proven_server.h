#pragma once

// Internal to wire: a listening TCP port of an agent whose clients prove the job's token. Each
// connection has a thread of its own, because its owner's function may block; their number is
// bounded.
//
// A client that does not prove the token within kProofPatience is disconnected without an answer.
// At the limit of connections, a new one replaces the oldest whose client has not proved the token
// yet. If all clients have, the new connection is closed, and its client has to try again.

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/server/listener.h"

namespace paceline::wire {

class ProvenServer {
 public:
  struct Place {
    std::string listen;      // HOST:PORT, port 0: any
    std::string_view magic;  // 16 bytes that identify the channel
    size_t connections_max = 0;
    // Other hosts may reach it although the job has no TLS, as they reach its master.
    bool is_insecure = false;
  };
  // Called on the connection's thread, which ends with it. Calls of the socket fail when the server
  // ends.
  using Serve = std::function<void(BulkSocket* socket)>;

  // FAILED_PRECONDITION: other hosts could reach it, there are no certificates, and the place does
  // not allow that. The process must ignore SIGPIPE.
  static absl::StatusOr<std::unique_ptr<ProvenServer>> Start(const Place& place,
                                                             const Credentials& credentials,
                                                             Serve serve);
  // Closes all connections and waits for their threads.
  ~ProvenServer();
  ProvenServer(const ProvenServer&) = delete;
  ProvenServer& operator=(const ProvenServer&) = delete;

  int port() const { return listener_->port(); }

 private:
  struct Session {
    Fd handle;  // a second descriptor of the socket, for shutdown
    bool is_proven = false;
    bool is_done = false;
    std::thread thread;
  };

  ProvenServer(const Place& place, std::string token, Serve serve)
      : magic_(place.magic),
        connections_max_(place.connections_max),
        token_(std::move(token)),
        serve_(std::move(serve)) {}
  void Take(Connection connection);
  bool MakeRoom();
  absl::Status Prove(Session* session, Fd fd);
  void Reap();

  const std::string_view magic_;
  const size_t connections_max_;
  const std::string token_;
  const Serve serve_;
  std::unique_ptr<BulkTls> tls_;
  std::mutex mutex_;             // guards the sessions, except their threads
  std::list<Session> sessions_;  // oldest first
  std::unique_ptr<Listener> listener_;
};

}  // namespace paceline::wire
