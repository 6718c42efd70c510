#pragma once

// A Unix socket for processes of the same user, with one JSON text a line. Bounds: the length of a
// line, unread answers of a peer, and the number of peers. A peer that exceeds a bound is
// disconnected.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"

namespace paceline::agent {

class LineServer {
 public:
  using PeerId = uint64_t;
  struct Listener {
    std::function<void(PeerId, const std::string&)> line;  // without the line's end
    std::function<void(PeerId)> gone;
  };
  static constexpr size_t kLineBytesMax = size_t{1} << 20;
  static constexpr size_t kUnreadBytesMax = size_t{8} << 20;
  static constexpr size_t kPeersMax = 1024;

  // Replaces a listener at `path`, which belonged to a dead agent.
  static absl::StatusOr<std::unique_ptr<LineServer>> Listen(Reactor& reactor, std::string path,
                                                            Listener listener);
  ~LineServer();
  LineServer(const LineServer&) = delete;
  LineServer& operator=(const LineServer&) = delete;

  // `line` without its end. Dropped if the peer has gone.
  void Send(PeerId peer, const std::string& line);
  // The connected process; 0: the peer has gone, or is in another pid namespace.
  pid_t PidOf(PeerId peer) const;
  // Drops the connections of that process.
  void DropProcess(pid_t pid);

 private:
  struct Peer {
    Fd fd;
    pid_t pid = 0;
    std::string unread;  // by us: the start of a line
    std::string unsent;
  };
  LineServer(Reactor& reactor, std::string path, Fd fd, Listener listener)
      : reactor_(reactor),
        path_(std::move(path)),
        fd_(std::move(fd)),
        listener_(std::move(listener)) {}
  void OnPeer();
  void OnReady(PeerId id, uint32_t events);
  void Flush(PeerId id);
  void Drop(PeerId id);

  Reactor& reactor_;
  const std::string path_;
  Fd fd_;
  Reactor::TimerId accept_timer_ = 0;
  const Listener listener_;
  PeerId next_ = 1;
  std::map<PeerId, Peer> peers_;
};

}  // namespace paceline::agent
