// A rank's side of its flight ring: model/flight_ring.h says what a ring is.
//
// Each call is a few stores to memory. None can block, and none fails once the ring is made.
// Everything but Name may be called from several threads at once.
#pragma once

#include <atomic>
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
  // Makes a new ring at that path and replaces an existing one, of which it keeps `longest_ns`.
  // kSystem: it cannot be made. kFull: there is no room.
  static Result<std::unique_ptr<FlightWriter>> Make(const FlightPlace& place);
  ~FlightWriter();
  FlightWriter(const FlightWriter&) = delete;
  FlightWriter& operator=(const FlightWriter&) = delete;

  // The number of a text, for use in events; kRingNoName if the table is full. Cuts texts longer
  // than 127 bytes. Each call takes a new entry, so the caller keeps the numbers.
  uint32_t Name(std::string_view text);

  // Returns the event's number.
  uint64_t Begin(const FlightEvent& event);
  void Complete(uint64_t number);

  // The rank enters another phase. Does nothing if it is in that phase already.
  void Turn(RankPhase phase, uint32_t site);
  // So many training steps have ended since the last call; each gets an equal part of the time.
  void Step(uint64_t made = 1);
  // The script's own thread waited for a collective, from then till now. Only that thread may call
  // it, as Turn and Step.
  void Waited(int64_t since_ns);
  // In a forked child: the ring belongs to the parent, so nothing is written any more.
  void Leave();

 private:
  explicit FlightWriter(RingHeader* ring) : ring_(ring) {}
  uint64_t Write(const FlightEvent& event, int64_t now);
  // Counts the time since the last call for the current phase.
  void Spend(int64_t now);
  // Counts the time from `since_ns` till `now` as waiting and not as work.
  void Wait(int64_t since_ns, int64_t now);
  void AddSteps(int64_t whole, int64_t made);

  RingHeader* ring_;  // null after Leave
  // Times of the step that is under way; only the script's thread uses them.
  int64_t spent_to_ = 0;
  int64_t own_ = 0;
  int64_t data_ = 0;
  int64_t waited_ = 0;
  int64_t other_ = 0;
  StepMeter meter_;
  // When the newest collective began for which the script has not waited in Work.wait; 0: none.
  std::atomic<int64_t> pending_since_ = 0;
  std::mutex names_;  // held while a text is added
};

}  // namespace paceline::client
