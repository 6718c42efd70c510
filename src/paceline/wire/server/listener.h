#pragma once

// Inside of wire: the master's listening sockets and the thread that accepts on them. gRPC would
// listen by itself, but then nobody hears of a connection before its first RPC.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"
#include "paceline/wire/security/unproven.h"

namespace paceline::wire {

class Listener {
 public:
  // Every address that the host name of `address` (HOST:PORT; port 0: any) stands for, as far as it
  // is of this host. An error when there is none, or the port is taken. A name may be as new as
  // this host, so it is waited for.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const std::string& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }

  // Once. Both run on the listener's thread: `take` owns the descriptor of what it gets;
  // `make_room` is asked when the process has no descriptor left for the next connection.
  struct Hooks {
    std::function<void(Connection)> take;
    std::function<void()> make_room;
  };
  void Start(Hooks hooks);

 private:
  Listener() = default;
  // NotFound when the name does not resolve, or to no address of this host.
  static absl::StatusOr<std::unique_ptr<Listener>> OpenNow(const std::string& host,
                                                           const std::string& port);
  bool Has(const sockaddr_storage& address) const;
  void Run();
  void AcceptAll(int fd);

  int port_ = 0;
  std::vector<Fd> sockets_;
  Fd stop_;  // an eventfd: readable when the thread shall end
  Hooks hooks_;
  std::thread thread_;
};

}  // namespace paceline::wire
