#pragma once

// The master's gRPC server: accepts agents, launchers and commands, checks who they are, bounds
// what they send, and hands typed events to one sink. It decides nothing and keeps no job state.

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/strong_id.h"
#include "paceline/wire/messages.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

using WatchId = StrongId<struct WatchIdTag, uint64_t>;
using SupervisorId = StrongId<struct SupervisorIdTag, uint64_t>;

struct AgentSaid {  // the first one of a connection is Register; the server sees to that
  ConnectionId connection;
  AgentMessage message;
};
struct AgentDisconnected {
  ConnectionId connection;
  std::string why;
};
struct StatusAsked {
  std::function<void(JobStatus)> reply;  // call once, from any thread
};
struct StopAsked {
  StopRequest request;
  std::function<void(absl::Status)> reply;  // call once, when durable
};
// A watcher has room for up to `count_max` events from `from_seq` on: answer with SendEvents, at
// once or, when it follows, as soon as there is one.
struct EventsWanted {
  WatchId watch;
  uint64_t from_seq = 1;
  uint32_t count_max = 0;
  bool follow = false;
};
struct WatchEnded {
  WatchId watch;
};
struct StacksAsked {
  std::function<void(JobStacks)> reply;  // call once, from any thread
};
struct SupervisorAttached {
  SupervisorId supervisor;
  bool is_operator = false;  // it starts the job's nodes on a cluster
};
struct SupervisorSaid {
  SupervisorId supervisor;
  SupervisorMessage message;
};
struct SupervisorDetached {
  SupervisorId supervisor;
};
using ServerEvent =
    std::variant<AgentSaid, AgentDisconnected, StatusAsked, StopAsked, EventsWanted, WatchEnded,
                 SupervisorAttached, SupervisorSaid, SupervisorDetached, StacksAsked>;

struct MasterServerOptions {
  std::string listen;  // HOST:PORT; port 0: any
  ServerCredentials credentials;
  bool has_relays = false;  // hosts may enroll as relays
  uint32_t agents_max = 20'000;
  uint32_t launchers_max = 20'000;  // each host may have one
  uint32_t watchers_max = 256;
  // Streams of one address at once. 0: as many as agents when only loopback is listened to, where
  // all share one address, else 4,096.
  uint32_t streams_per_peer_max = 0;
  // Connections of one address at once that have not shown the token: the oldest is closed for a
  // new one. 0: as many as agents when only loopback is listened to, else 1,024.
  uint32_t unproven_per_peer_max = 0;
};

// Once in the process of a master, before it has a thread: lets its servers with certificates speak
// TLS 1.3 only. It sets an environment variable that gRPC reads, so it is not for processes that
// start others.
void UseOnlyTls13();

class MasterServer {
 public:
  // Runs on gRPC's threads, several at once, but in order for each connection. False: no room, and
  // the connection is closed (an agent comes back and tells all). The events that end something
  // (…Disconnected, …Ended, …Detached) must always be taken.
  using Sink = std::function<bool(ServerEvent)>;

  // ALREADY_EXISTS: the port is taken. INVALID_ARGUMENT: not an address of this host.
  // FAILED_PRECONDITION: with certificates but without UseOnlyTls13.
  static absl::StatusOr<std::unique_ptr<MasterServer>> Start(MasterServerOptions options,
                                                             Sink sink);
  // Closes every stream and waits until the sink's last call has ended.
  ~MasterServer();
  MasterServer(const MasterServer&) = delete;
  MasterServer& operator=(const MasterServer&) = delete;

  uint32_t port() const;

  // All below: any thread, never block; no effect when the other side is gone. A queue that
  // reaches its bound closes the connection. Of assignments not yet sent, only the last is kept.
  void Send(ConnectionId connection, MasterMessage message);
  void Close(ConnectionId connection, std::string why);
  // `is_last`: the stream ends behind these.
  void SendEvents(WatchId watch, std::vector<JobEvent> events, bool is_last);
  // After JobEnded the stream ends.
  void Order(SupervisorId supervisor, SupervisorOrder order);

 private:
  class Service;
  std::unique_ptr<Service> service_;
  explicit MasterServer(std::unique_ptr<Service> service);
};

}  // namespace paceline::wire
