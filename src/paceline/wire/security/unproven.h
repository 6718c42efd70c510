#pragma once

// Internal to wire: accepted connections without a proven token. gRPC limits the time of a
// handshake but not the number of connections, so a stranger could take all descriptors of the
// master with silent connections.
//
// The number is limited for one address and for all together. Above the limit the oldest is closed
// and the new one stays: a process of the job proves its token at once, so the old ones are not of
// the job. Refusing new ones would be simpler, but on a shared address (loopback, a gateway) a
// stranger could lock out the job.
//
// What one connection sends before it has proved the token is limited, too. gRPC bounds neither the
// frames that continue a header nor the streams that are opened and reset at once.
//
// gRPC owns each connection and closes it without telling us. So an entry may be of a closed
// connection, which is noticed only when it would be closed. Until then it counts.

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire {

// "10.0.0.1:4711", "[fe80::1]:4711": the same text from gRPC's name of a peer and from a socket
// address. Without the scope of a link-local address; "" for other names.
std::string PeerKey(std::string_view peer);
std::string PeerKey(const sockaddr_storage& address);

struct Connection {
  int fd = -1;      // gRPC's, so it may be another file now
  ino_t inode = 0;  // of the socket, to detect another file
  std::string peer;
};

// A process of the job sends its token in the first header, and at most HTTP/2's first window of 64
// KiB before it is read.
inline constexpr uint64_t kUnprovenBytesMax = 256 << 10;

// Ends the connection if its descriptor still is that socket. gRPC notices the end and cleans up.
void ShutDown(const Connection& connection);

class UnprovenConnections {
 public:
  struct Bounds {
    uint32_t per_host = 0;
    uint32_t in_all = 0;
  };
  // Limits for a server at `listen` that may have `all` connections of the job. `asked` 0: the
  // default, or `all` if it only listens on loopback. At most half of the process's `descriptors`,
  // so that some are left for the job.
  static Bounds BoundsFor(std::string_view listen, uint32_t asked, uint32_t all,
                          uint64_t descriptors);

  explicit UnprovenConnections(Bounds bounds) : bounds_(bounds) {}

  // Called before gRPC gets the connection. Returns the connection to close for it, if any.
  std::optional<Connection> Add(Connection connection);

  // The peer has proved the token.
  void Prove(std::string_view peer);

  // The oldest of all, to be closed when the process has no free descriptor.
  std::optional<Connection> TakeOldest();

  // Connections that have sent more than kUnprovenBytesMax, to be closed. Forgets those that are
  // closed. Each call looks at some; the next call goes on.
  std::vector<Connection> TakeGreedy();

  size_t size() const;

 private:
  using Order = uint64_t;  // in order of acceptance
  Connection Remove(Order order);

  const Bounds bounds_;
  mutable std::mutex mutex_;  // guards the members below
  Order last_ = 0;
  Order looked_at_ = 0;  // the last that TakeGreedy looked at
  std::map<Order, Connection> connections_;
  std::map<std::string, Order> by_peer_;
  std::map<std::string, std::set<Order>> by_host_;
};

// How many files this process may have open.
uint64_t DescriptorLimit();

}  // namespace paceline::wire
