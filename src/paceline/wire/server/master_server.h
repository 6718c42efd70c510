#pragma once

// The master's gRPC server: accepts agents, launchers and commands, authenticates them, limits what
// they send, and passes typed events to one sink. It decides nothing and has no job state.

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

struct AgentSaid {  // the server makes sure that a connection's first message is Register
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
struct ScaleAsked {
  ScaleRequest request;
  std::function<void(ScaleReply)> reply;  // call once, when the choice is durable
};
struct DrillAsked {
  DrillRequest request;
  std::function<void(DrillReply)> reply;  // call once, when the drill is durable
};
struct StopAsked {
  StopRequest request;
  std::function<void(absl::Status)> reply;  // call once, when durable
};
// A watcher has room for up to `count_max` events from `from_seq` on. Answer with SendEvents: at
// once, or, if it follows, as soon as there is an event.
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
// The agent of a node is asked for a part of a ring.
struct RingsAsked {
  RingsRequest request;
  std::function<void(RingsReply)> reply;  // call once, from any thread
};
struct PageAsked {
  std::function<void(PageLink)> reply;  // call once, from any thread
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
using ServerEvent = std::variant<AgentSaid, AgentDisconnected, StatusAsked, StopAsked, EventsWanted,
                                 WatchEnded, SupervisorAttached, SupervisorSaid, SupervisorDetached,
                                 StacksAsked, PageAsked, ScaleAsked, DrillAsked, RingsAsked>;

struct MasterServerOptions {
  std::string listen;  // HOST:PORT; port 0: any
  ServerCredentials credentials;
  bool has_relays = false;  // hosts may enroll as relays
  uint32_t agents_max = 20'000;
  uint32_t launchers_max = 20'000;  // each host may have a launcher
  uint32_t watchers_max = 256;
  // Concurrent streams of one address. 0: as many as agents if the server only listens on loopback,
  // where all clients share one address, else 4,096.
  uint32_t streams_per_peer_max = 0;
  // Concurrent connections of one address without a proven token; a new one replaces the oldest. 0:
  // as many as agents if the server only listens on loopback, else 1,024.
  uint32_t unproven_per_peer_max = 0;
};

// Called once in a master's process, before it has threads: its servers with certificates then
// accept TLS 1.3 only. Sets an environment variable for gRPC, so it is not for processes that start
// others.
void UseOnlyTls13();

class MasterServer {
 public:
  // Called on gRPC's threads, concurrently, but in order for each connection. False: no room, so
  // the connection is closed (an agent reconnects and reports everything). Events that end
  // something (…Disconnected, …Ended, …Detached) must always be accepted.
  using Sink = std::function<bool(ServerEvent)>;

  // ALREADY_EXISTS: the port is taken. INVALID_ARGUMENT: not an address of this host.
  // FAILED_PRECONDITION: certificates without UseOnlyTls13.
  static absl::StatusOr<std::unique_ptr<MasterServer>> Start(MasterServerOptions options,
                                                             Sink sink);
  // Closes every stream and waits for the sink's last call.
  ~MasterServer();
  MasterServer(const MasterServer&) = delete;
  MasterServer& operator=(const MasterServer&) = delete;

  uint32_t port() const;

  // The calls below work from any thread, never block, and do nothing if the other side is gone. A
  // queue that reaches its bound closes the connection. Of unsent assignments only the last is
  // kept.
  void Send(ConnectionId connection, MasterMessage message);
  void Close(ConnectionId connection, std::string why);
  // `is_last`: the stream ends after these.
  void SendEvents(WatchId watch, std::vector<JobEvent> events, bool is_last);
  // After JobEnded the stream ends; that of an operator ends after its EndKept.
  void Order(SupervisorId supervisor, SupervisorOrder order);

 private:
  class Service;
  std::unique_ptr<Service> service_;
  explicit MasterServer(std::unique_ptr<Service> service);
};

}  // namespace paceline::wire
