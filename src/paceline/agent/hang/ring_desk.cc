#include "paceline/agent/hang/ring_desk.h"

#include <unistd.h>

#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

Instant WallClock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return Instant::FromNanoseconds(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

wire::RingPart ReadRingPart(const FlightRings& rings, const wire::RingCursor& at) {
  wire::RingPart part{.boot_id = BootId(), .now = {WallClock(), MonotonicNs()}};
  std::optional<FlightRings::NextRing> found = rings.ReadFrom(at.rank);
  if (!found.has_value()) return part;
  const FlightReading& ring = found->reading;
  const bool is_same = ring.pulse.rank == int64_t{at.rank} && at.before > 0 &&
                       ring.pulse.generation == at.generation.value();
  const uint64_t before = is_same ? at.before : std::numeric_limits<uint64_t>::max();
  part.has_ring = true;
  part.has_more = found->has_more;
  part.slice = CutRing(ring, before, part.now.monotonic_ns - at.last.nanoseconds(), kRingSliceMax);
  part.slice.is_alive = ::access(Concat("/proc/", ring.writer_pid).c_str(), F_OK) == 0;
  return part;
}

RingDesk::RingDesk(Reactor& reactor, const FlightRings& rings, Answer answer)
    : reactor_(reactor), rings_(rings), answer_(std::move(answer)) {}

RingDesk::~RingDesk() {
  if (thread_.joinable()) thread_.join();
}

void RingDesk::Ask(const wire::RingsWanted& wanted) {
  if (waiting_.size() >= kWaitingMax) return;
  waiting_.push_back(wanted);
  if (!is_reading_) Begin();
}

void RingDesk::Begin() {
  if (thread_.joinable()) thread_.join();
  is_reading_ = true;
  thread_ = std::thread([this, wanted = waiting_.front()] {
    wire::RingPiece piece{wanted.id, wire::EncodeRingPart(ReadRingPart(rings_, wanted.at))};
    reactor_.Post([this, piece = std::move(piece)]() mutable {
      is_reading_ = false;
      answer_(std::move(piece));
      if (!waiting_.empty()) Begin();
    });
  });
  waiting_.pop_front();
}

}  // namespace paceline::agent
