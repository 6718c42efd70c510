#pragma once

// The agent's end of its stream to the master. Connects, and reconnects without limit, with a
// jittered pause that doubles.
//
// The host gets typed events through a sink. It answers StreamOpened with Send(Register{…}). Until
// then all other messages are dropped, because a registration reports everything. After
// StreamBroken another StreamOpened follows by itself; after a Refusal without `retry` none does.

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
  bool is_denied = false;  // wrong token or certificate: retries, but a person should know
};
using AgentStreamEvent =
    std::variant<StreamOpened, StreamBroken, Welcome, Pace, Assignment, Refusal, CheckpointOrder,
                 EvidenceOrder, JournalBytes, JournalWanted, RingsWanted, LinkTry>;

struct AgentStreamOptions {
  std::string address;              // of the master, host:port
  std::vector<std::string> relays;  // host:port; tried before the master, see route.h
  std::string who;                  // this agent's name, for its choice of relays
  Credentials credentials;
  Duration reconnect_delay = Duration::Milliseconds(50);
  Duration reconnect_delay_max = Duration::Seconds(1);
  uint64_t jitter_seed = 0;
};

class AgentStream {
 public:
  // Called on gRPC's threads, one call at a time, in order. It must only post to a queue.
  using Sink = std::function<void(AgentStreamEvent)>;

  AgentStream(AgentStreamOptions options, Sink sink);
  // Cancels the stream and waits for the sink's last call.
  ~AgentStream();
  AgentStream(const AgentStream&) = delete;
  AgentStream& operator=(const AgentStream&) = delete;

  // Any thread; never blocks. False: dropped, because no stream is registered. A queue that reaches
  // its bound (1,024 messages) breaks the stream, and the next registration reports everything.
  bool Send(AgentMessage message);

  // Closes the stream, and dials again after the longest pause. Messages that are on their way to
  // the sink may still come before StreamBroken.
  void HangUp();

  // After a Leaving: blocks until sent messages have left, at most for `timeout`.
  void Flush(Duration timeout);

 private:
  class Channel;
  std::unique_ptr<Channel> channel_;
};

}  // namespace paceline::wire
