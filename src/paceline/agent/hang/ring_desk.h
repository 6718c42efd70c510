#pragma once

// Answers the master's questions about this node's flight rings, for `paceline trace`. A thread
// reads them, one ring of 400 KB for each question, while the loop continues.

#include <deque>
#include <functional>
#include <thread>

#include "paceline/agent/hang/flight_rings.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/wire/codec/ring_part.h"
#include "paceline/wire/messages.h"

namespace paceline::agent {

// The part of the node's rings at this place, with the clocks of this host. Any thread.
wire::RingPart ReadRingPart(const FlightRings& rings, const wire::RingCursor& at);

class RingDesk {
 public:
  using Answer = std::function<void(wire::RingPiece)>;

  // `reactor` and `rings` must outlive the desk. `answer` is called on the reactor's thread.
  RingDesk(Reactor& reactor, const FlightRings& rings, Answer answer);
  ~RingDesk();
  RingDesk(const RingDesk&) = delete;
  RingDesk& operator=(const RingDesk&) = delete;

  // Questions are answered in their order. One that finds kWaitingMax others is dropped, and the
  // master takes it for unanswered.
  void Ask(const wire::RingsWanted& wanted);

  static constexpr size_t kWaitingMax = 64;

 private:
  void Begin();

  Reactor& reactor_;
  const FlightRings& rings_;
  const Answer answer_;
  std::deque<wire::RingsWanted> waiting_;
  bool is_reading_ = false;
  std::thread thread_;
};

}  // namespace paceline::agent
