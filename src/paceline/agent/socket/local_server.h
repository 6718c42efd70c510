#pragma once

// A Unix socket for processes of the same user, with one thread a connection, because the owner's
// function may block. The number of connections is bounded.

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"

namespace paceline::agent {

class LocalServer {
 public:
  // Called on the connection's thread, which ends with it. When the server ends, the socket is shut
  // down.
  using Serve = std::function<void(const Fd& fd)>;

  // Replaces a listener at `path`, which belonged to a dead process.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Listen(const std::string& path,
                                                             size_t connections_max, Serve serve);
  // Closes all connections, waits for their threads, and removes the path if it is still its own.
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  const std::string& path() const { return path_; }

 private:
  struct Session {
    Fd fd;
    std::atomic<bool> is_done = false;
    std::thread thread;
  };

  LocalServer(std::string path, Fd fd, size_t connections_max, Serve serve);
  void Accept();
  void Take();

  const std::string path_;
  const Fd fd_;
  const ino_t inode_;  // of the path
  const Fd stop_;      // readable when the threads must end
  const size_t connections_max_;
  const Serve serve_;
  std::list<Session> sessions_;  // of the accepting thread, then of the destructor
  std::thread thread_;
};

}  // namespace paceline::agent
