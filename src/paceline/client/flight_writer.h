// A rank's side of its flight ring: model/flight_ring.h says what a ring is.
//
// Each call is a few stores to memory. None can block, and none fails once the ring is made.
// Everything but Name may be called from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "paceline/base/result.h"
#include "paceline/model/flight_ring.h"

namespace paceline::client {

struct FlightPlace {
  std::string path;
  uint64_t generation = 0;
  int64_t rank = 0;
};

struct FlightEvent {
  FlightKind kind = FlightKind::kCollective;
  uint32_t group = kRingNoName;
  uint32_t operation = kRingNoName;
  uint32_t dtype = kRingNoName;
  uint32_t site = kRingNoName;
  uint64_t sequence = 0;
  uint64_t bytes = 0;
};

class FlightWriter {
 public:
  // Makes a new ring at that path, in the place of one that is there. kSystem when that cannot be,
  // kFull when there is no room for it.
  static Result<std::unique_ptr<FlightWriter>> Make(const FlightPlace& place);
  ~FlightWriter();
  FlightWriter(const FlightWriter&) = delete;
  FlightWriter& operator=(const FlightWriter&) = delete;

  // The number of a text, to be used in an event; kRingNoName when the table is full. A text of
  // more than 127 bytes is cut. The caller keeps numbers: each call takes a new place.
  uint32_t Name(std::string_view text);

  // Returns the event's number.
  uint64_t Begin(const FlightEvent& event);
  void Complete(uint64_t number);

  // The rank turns to another phase; nothing when it is in it already.
  void Turn(RankPhase phase, uint32_t site);
  // A step of the training is done.
  void Step();
  // In a child that the rank has forked: the ring is its parent's, and nothing is written any more.
  void Leave();

 private:
  explicit FlightWriter(RingHeader* ring) : ring_(ring) {}
  uint64_t Write(const FlightEvent& event, int64_t now);

  RingHeader* ring_;  // null once it was left
  std::mutex names_;  // held while a name is added
};

}  // namespace paceline::client
