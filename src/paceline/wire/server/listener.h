#pragma once

// Internal to wire: the master's listening sockets and the thread that accepts on them. If gRPC
// listened itself, the master would not notice a connection before its first RPC.

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
  // Listens on every address of this host that the host name in `address` (HOST:PORT; port 0: any)
  // resolves to. Fails if there is none, or if the port is taken. On a host that has just started
  // the name may not resolve yet: then waits for it.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const std::string& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }

  // Called once. The hooks run on the listener's thread. `take` owns the descriptor; `make_room`
  // is called if the process has no free descriptor for the next connection. `look` is called every
  // 100 ms while it returns true, and after each connection.
  struct Hooks {
    std::function<void(Connection)> take;
    std::function<void()> make_room;
    std::function<bool()> look = [] { return false; };
  };
  void Start(Hooks hooks);

 private:
  Listener() = default;
  // NotFound if the name does not resolve to an address of this host.
  static absl::StatusOr<std::unique_ptr<Listener>> OpenNow(const std::string& host,
                                                           const std::string& port);
  bool Has(const sockaddr_storage& address) const;
  void Run();
  void AcceptAll(int fd);

  int port_ = 0;
  std::vector<Fd> sockets_;
  Fd stop_;  // an eventfd: readable when the thread must end
  Hooks hooks_;
  std::thread thread_;
};

}  // namespace paceline::wire
