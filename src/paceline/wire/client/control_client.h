#pragma once

// Clients of a running master: commands (status, events, stop …) and the launcher.

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/instant.h"
#include "paceline/wire/messages.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

struct ControlClientOptions {
  std::string address;  // of the master, host:port
  Credentials credentials;
  Duration timeout = Duration::Seconds(10);  // of GetStatus and Stop; includes waiting for a master
};

// Blocking calls from any thread; one WatchEvents at a time. UNAVAILABLE: no master answers.
// UNAUTHENTICATED: wrong token or certificate. FAILED_PRECONDITION, at once: only one side uses
// TLS.
class ControlClient {
 public:
  explicit ControlClient(ControlClientOptions options);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  absl::StatusOr<JobStatus> GetStatus();
  // Blocks for seconds, until all agents have sampled their ranks' stacks. The client's timeout
  // must exceed the master's patience with its agents.
  absl::StatusOr<JobStacks> GetStacks();

  // A part of a flight ring of a node. The client's timeout must exceed the master's patience with
  // an agent.
  absl::StatusOr<RingsReply> ReadRings(const RingsRequest& request);

  // A new link to the job's page.
  absl::StatusOr<PageLink> OpenPage();

  // OK when the stop is decided and durable; ranks may still run.
  absl::Status Stop(const StopRequest& request);

  // Answered when the choice is durable; the job changes its size later.
  absl::StatusOr<ScaleReply> Scale(const ScaleRequest& request);

  // Answered when the drill is recorded, or refused; the caller strikes then.
  absl::StatusOr<DrillReply> Drill(const DrillRequest& request);

  // Calls `take` for every durable event from `from_seq` (1 = all) on, in order. Without `follow`
  // it returns at the journal's end. With it, it returns when the master ends the stream (job
  // finished), when the connection breaks (UNAVAILABLE: call again with the next seq), or when
  // `take` returns false. `Cancel`, from any thread, ends it with CANCELLED.
  absl::Status WatchEvents(uint64_t from_seq, bool follow,
                           const std::function<bool(const JobEvent&)>& take);
  void Cancel();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

struct SupervisorOpened {};  // report all dead nodes again
struct SupervisorBroken {
  std::string why;
  bool is_denied = false;
};
using SupervisorEvent = std::variant<SupervisorOpened, SupervisorBroken, Wish, Summary, JobEnded>;

// The launcher's stream. Reconnects as AgentStream does, but not after JobEnded.
class SupervisorStream {
 public:
  // Called on gRPC's threads, one call at a time. It must only post to a queue.
  using Sink = std::function<void(SupervisorEvent)>;

  // `relays` and `who` as in AgentStreamOptions.
  SupervisorStream(ControlClientOptions options, Sink sink,
                   const std::vector<std::string>& relays = {}, const std::string& who = "");
  ~SupervisorStream();
  SupervisorStream(const SupervisorStream&) = delete;
  SupervisorStream& operator=(const SupervisorStream&) = delete;

  // Any thread; never blocks. False: not connected; send it again after SupervisorOpened.
  bool Send(const SupervisorMessage& message);

 private:
  class Channel;
  std::unique_ptr<Channel> channel_;
};

}  // namespace paceline::wire
