#pragma once

// Inside of wire: the connections that the master accepted and that have not shown the job's token
// yet. gRPC bounds how long such a connection may take for its handshake, not how many there are;
// a stranger could hold every descriptor of the master with connections that never say anything.
//
// One address, and all addresses together, may have so many. When there are more, the oldest goes
// and the new one stays: a process of the job shows its token at once, so it is the old ones that
// are not of the job, and on a shared address (loopback, a gateway) a stranger that fills its share
// locks nobody out. Refusing new ones would be simpler, and would let him do just that.
//
// gRPC owns each connection and closes it without a word to us. So an entry may be of one that is
// long gone; it is found out when its turn to go comes. The price is that the dead count, too.

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace paceline::wire {

// "10.0.0.1:4711", "[fe80::1]:4711": one text for gRPC's name of a peer and for its socket address.
// Without the scope of a link-local address, and "" for what is no such name.
std::string PeerKey(std::string_view peer);
std::string PeerKey(const sockaddr_storage& address);

struct Connection {
  int fd = -1;      // gRPC's, so possibly another file by now
  ino_t inode = 0;  // of the socket: tells whether it still is the same
  std::string peer;
};

// Ends the connection, if its descriptor still is that socket. gRPC sees the end and cleans up.
void ShutDown(const Connection& connection);

class UnprovenConnections {
 public:
  struct Bounds {
    uint32_t per_host = 0;
    uint32_t in_all = 0;
  };
  // Of a server that listens there and may have `all` connections of the job. 0 was asked for: the
  // usual number, or all of them where only loopback is listened to.
  static Bounds BoundsFor(std::string_view listen, uint32_t asked, uint32_t all);

  explicit UnprovenConnections(Bounds bounds) : bounds_(bounds) {}

  // Before gRPC gets it. The one that has to go for it, if any.
  std::optional<Connection> Add(Connection connection);

  // Its peer has shown the token.
  void Prove(std::string_view peer);

  // The oldest of all, for when the process has no descriptor left.
  std::optional<Connection> TakeOldest();

  size_t size() const;

 private:
  using Order = uint64_t;  // of acceptance
  Connection Remove(Order order);

  const Bounds bounds_;
  mutable std::mutex mutex_;  // guards all below
  Order last_ = 0;
  std::map<Order, Connection> connections_;
  std::map<std::string, Order> by_peer_;
  std::map<std::string, std::set<Order>> by_host_;
};

}  // namespace paceline::wire
