#pragma once

// Relays frames (model/lease_frame.h) between this node's processes and the master's ledger of
// leases: from a Unix socket to the lease channel and back. It numbers the processes, reports their
// ends, pings, and keeps reconnecting. It decides nothing and keeps no leases: after a new
// connection every process reports the leases that it holds.
//
// It has its own thread, because workers wait for each answer and the agent's loop is busy.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"
#include "paceline/wire/bulk/lease_socket.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

class LeaseRelay {
 public:
  static constexpr size_t kPeersMax = 4'096;
  static constexpr size_t kUnreadBytesMax = size_t{8} << 20;  // answers that a process has not read

  struct Setup {
    std::string socket;
    wire::Credentials credentials;
  };
  // Listens at the socket and replaces a dead agent's listener.
  static absl::StatusOr<std::unique_ptr<LeaseRelay>> Start(Setup setup);
  ~LeaseRelay();
  LeaseRelay(const LeaseRelay&) = delete;
  LeaseRelay& operator=(const LeaseRelay&) = delete;

  // Both from any thread. The master's lease address, HOST:PORT; "": none.
  void SetMaster(const std::string& address);
  // This agent is about to end that process, so its work is not to blame.
  void NoteKilled(int32_t pid);

 private:
  using PeerId = uint32_t;
  struct Peer {
    Fd fd;
    Fd pidfd;
    ProcessId process;
    std::string unread;  // by us: the start of a frame
    std::string unsent;
    bool is_dirty = false;
    bool is_full = false;  // waits until it reads
  };

  LeaseRelay(Setup setup, std::unique_ptr<Reactor> reactor, Fd fd);
  absl::Status Watch();
  void OnPeer();
  void OnReady(PeerId id, uint32_t events);
  void OnUpstream(uint32_t events);
  void Flush(PeerId id);
  void FlushUpstream();
  void Gone(PeerId id, bool has_died);
  void Dial();
  void BreakUpstream(std::string_view why);
  void Ping();

  const Setup setup_;
  const std::unique_ptr<Reactor> reactor_;
  Fd fd_;
  Reactor::TimerId accept_timer_ = 0;
  PeerId next_ = 1;
  std::map<PeerId, Peer> peers_;
  std::unique_ptr<wire::LeaseSocket> upstream_;
  std::string master_;
  uint64_t links_ = 0;  // connections so far
  int64_t redial_ns_ = 0;
  bool is_upstream_full_ = false;
  Reactor::TimerId dial_timer_ = 0;
  std::mutex mutex_;
  std::deque<ProcessId> killed_;  // the last ones; guarded by mutex_
  std::thread thread_;
};

}  // namespace paceline::agent
