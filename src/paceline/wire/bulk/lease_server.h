#pragma once

// The master's end of the lease channel: one thread for all agents' connections. The owner's hooks
// run on it, so the owner's state needs no lock. New connections prove the token on their own
// threads; see bulk_server.h for their limits.

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"
#include "paceline/base/instant.h"
#include "paceline/model/lease_frame.h"
#include "paceline/wire/bulk/lease_socket.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/server/listener.h"

namespace paceline::wire {

inline constexpr std::string_view kLeaseMagic = "paceline data 1\n";

class BulkTls;

class LeaseServer {
 public:
  using LinkId = uint64_t;
  static constexpr size_t kLinksMax = 20'000;
  static constexpr size_t kUnprovenMax = 256;
  // After this silence an agent's processes count as lost. Agents ping five times as often.
  static constexpr Duration kSilenceMax = Duration::Seconds(1);

  struct Hooks {
    std::function<void(LinkId, const std::vector<LeaseFrame>&)> heard;
    // `is_silent`: it was closed because it had been silent for too long.
    std::function<void(LinkId, bool is_silent)> broken;
    // Called after all messages that came together. Returns when to call it again at the latest.
    std::function<Instant()> round;
  };

  // `listen`: HOST:PORT, port 0: any. FAILED_PRECONDITION: other hosts could reach it, there are no
  // certificates, and `is_insecure` does not allow that. The process must ignore SIGPIPE.
  struct Place {
    std::string listen;
    bool is_insecure = false;
  };
  static absl::StatusOr<std::unique_ptr<LeaseServer>> Open(const Place& place,
                                                           const ServerCredentials& credentials);
  ~LeaseServer();
  LeaseServer(const LeaseServer&) = delete;
  LeaseServer& operator=(const LeaseServer&) = delete;

  int port() const { return listener_->port(); }
  // The monotonic clock of `round`'s result.
  static Instant Now();

  // Called once.
  void Start(Hooks hooks);
  // Ends the thread. No hook runs afterwards.
  void Stop();

  // Any thread. Runs on the server's thread, before the next round.
  void Post(std::function<void()> work);
  // Only on the server's thread. Does nothing if the link is gone.
  void Send(LinkId link, const LeaseFrame& frame);

 private:
  struct Link {
    std::unique_ptr<LeaseSocket> socket;
    Instant heard;
    bool is_full = false;   // waits until the agent reads
    bool is_dirty = false;  // has unsent frames
  };
  struct Newcomer {
    Fd handle;  // a second descriptor of the socket, for shutdown
    bool is_done = false;
    std::thread thread;
  };

  LeaseServer(const ServerCredentials& credentials, std::unique_ptr<BulkTls> tls,
              std::unique_ptr<Listener> listener);
  void Take(Connection connection);
  void Reap();
  void Adopt(std::unique_ptr<LeaseSocket> socket);
  void Run();
  void Read(LinkId id);
  void FlushDirty();
  void Drop(LinkId id, bool is_silent);
  void CutSilent(Instant now);
  void RunPosted();
  void Wake();

  const std::string token_;
  const std::unique_ptr<BulkTls> tls_;
  Hooks hooks_;
  Fd epoll_;
  Fd wake_;
  std::atomic<bool> is_ending_ = false;
  LinkId next_link_ = 1;
  std::map<LinkId, Link> links_;  // used by the thread only, as the next member
  std::vector<LinkId> dirty_;
  Instant silence_due_;
  std::mutex mutex_;  // guards the members below, except the listener
  std::vector<std::function<void()>> posted_;
  std::list<Newcomer> newcomers_;  // oldest first
  std::unique_ptr<Listener> listener_;
  std::thread thread_;
};

}  // namespace paceline::wire
