#pragma once

// The agent's side of its one stream to the master: connects, and re-connects for ever, with a
// jittered pause that doubles.
//
// The host hears typed events through a sink. It answers StreamOpened with Send(Register{…}): until
// then everything else is dropped, because a registration tells the whole truth anyway. After
// StreamBroken the next StreamOpened comes by itself; after a Refusal
// without `retry` none comes.

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/wire/messages.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::wire {

struct StreamOpened {};  // register now
struct StreamBroken {
  std::string why;
  bool is_denied = false;  // wrong token or certificate: keeps trying, but a person should know
};
using AgentStreamEvent = std::variant<StreamOpened, StreamBroken, Welcome, Pace, Assignment,
                                      Refusal, CheckpointOrder, EvidenceOrder>;

// One connection that several agents' streams share, for those who speak for many agents at once.
class SharedChannel {
 public:
  SharedChannel(const std::string& address, const Credentials& credentials);
  ~SharedChannel();
  SharedChannel(const SharedChannel&) = delete;
  SharedChannel& operator=(const SharedChannel&) = delete;

 private:
  friend class AgentStream;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

struct AgentStreamOptions {
  std::string address;              // of the master, host:port
  std::vector<std::string> relays;  // host:port; tried before the master, see route.h
  std::string who;                  // this agent's name, for its choice among relays
  Credentials credentials;
  Duration reconnect_delay = Duration::Milliseconds(50);
  Duration reconnect_delay_max = Duration::Seconds(1);
  uint64_t jitter_seed = 0;
  const SharedChannel* channel = nullptr;  // unset: a connection of its own
};

class AgentStream {
 public:
  // Runs on gRPC's threads, one call at a time, in order; it shall only post to a queue.
  using Sink = std::function<void(AgentStreamEvent)>;

  AgentStream(AgentStreamOptions options, Sink sink);
  // Cancels the stream and waits for the sink's last call to end.
  ~AgentStream();
  AgentStream(const AgentStream&) = delete;
  AgentStream& operator=(const AgentStream&) = delete;

  // Any thread; never blocks. False: dropped, because no stream is registered. A queue that
  // reaches its bound (1,024 messages) breaks the stream, and the next registration tells all.
  bool Send(AgentMessage message);

  // After a Leaving: blocks until what was sent is on its way, at most for `timeout`.
  void Flush(Duration timeout);

 private:
  class Channel;
  std::unique_ptr<Channel> channel_;
};

}  // namespace paceline::wire
