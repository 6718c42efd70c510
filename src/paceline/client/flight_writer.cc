#include "paceline/client/flight_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>

#include "paceline/base/fd.h"
#include "paceline/base/retried.h"
#include "paceline/client/memory_orders.h"
#include "paceline/client/page_file.h"

namespace paceline::client {
namespace {

Failure Refused(const std::string& path, int error_number) {
  return {.kind = error_number == ENOSPC ? FailureKind::kFull : FailureKind::kSystem,
          .message = "flight ring " + path,
          .error_number = error_number};
}

// A tmpfs allocates pages when they are touched, and kills the process with SIGBUS if it is full.
// So all pages are allocated first.
void* MapNew(int fd, int* error_number) {
  *error_number = -ReserveRange(fd, 0, kRingBytes);
  if (*error_number != 0) return MAP_FAILED;
  void* memory = mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  *error_number = errno;
  return memory;
}

// The longest stretches of the phases that the rank's earlier attempts completed: a rank that saves
// for the first time in its second attempt is not slower than those of the first. None from a ring
// that is missing or damaged.
std::array<int64_t, kRankPhases> LearnedBefore(const std::string& path) {
  constexpr int64_t kDayNs = 86'400'000'000'000;
  std::array<int64_t, kRankPhases> learned{};
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  alignas(RingHeader) std::array<std::byte, kRingHeaderBytes> header;
  const bool is_read = file.is_open() && pread(file.get(), header.data(), header.size(), 0) ==
                                             static_cast<ssize_t>(header.size());
  const auto pulse = is_read ? ReadPulse(header, nullptr) : std::nullopt;
  if (!pulse.has_value()) return learned;
  for (size_t i = 0; i < learned.size(); ++i) {
    const int64_t longest = pulse->longest_ns[i];
    if (longest > 0 && longest < kDayNs) learned[i] = longest;
  }
  return learned;
}

}  // namespace

Result<std::unique_ptr<FlightWriter>> FlightWriter::Make(const FlightPlace& place) {
  const std::string fresh = place.path + "." + std::to_string(getpid());
  const int fd = open(fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Refused(place.path, errno);
  int error_number = 0;
  void* memory = MapNew(fd, &error_number);
  close(fd);
  if (memory == MAP_FAILED) {
    unlink(fresh.c_str());
    return Refused(place.path, error_number);
  }
  FormatRing({static_cast<std::byte*>(memory), kRingBytes}, place.generation, place.rank, getpid());
  std::unique_ptr<FlightWriter> writer(new FlightWriter(static_cast<RingHeader*>(memory)));
  const int64_t now = MonotonicNanoseconds();
  writer->ring_->phase_since_ns.store(now, kRelaxed);
  writer->ring_->last_event_ns.store(now, kRelaxed);
  writer->ring_->spent_since_ns.store(now, kRelaxed);
  writer->spent_to_ = now;
  const std::array<int64_t, kRankPhases> learned = LearnedBefore(place.path);
  for (size_t i = 0; i < learned.size(); ++i) {
    writer->ring_->longest_ns[i].store(learned[i], kRelaxed);
  }
  if (std::rename(fresh.c_str(), place.path.c_str()) != 0) {
    error_number = errno;
    unlink(fresh.c_str());
    return Refused(place.path, error_number);
  }
  return writer;
}

FlightWriter::~FlightWriter() { Leave(); }

void FlightWriter::Leave() {
  if (ring_ != nullptr) munmap(ring_, kRingBytes);
  ring_ = nullptr;
}

uint32_t FlightWriter::Name(std::string_view text) {
  const std::lock_guard lock(names_);
  if (ring_ == nullptr) return kRingNoName;
  const uint64_t name = ring_->names_used.load(kRelaxed) + 1;
  if (name >= kRingNames) return kRingNoName;
  std::memcpy(NameOf(*ring_, static_cast<uint32_t>(name)), text.data(),
              std::min<size_t>(text.size(), kRingNameBytes - 1));
  ring_->names_used.store(name, kRelease);
  return static_cast<uint32_t>(name);
}

uint64_t FlightWriter::Write(const FlightEvent& event, int64_t now) {
  const uint64_t number = ring_->begun.fetch_add(1, std::memory_order_acq_rel);
  FlightRecord& record = RecordOf(*ring_, number);
  record.commit.store(0, kRelaxed);
  std::atomic_thread_fence(kRelease);
  record.kind.store(event.kind, kRelaxed);
  record.group.store(event.group, kRelaxed);
  record.operation.store(event.operation, kRelaxed);
  record.dtype.store(event.dtype, kRelaxed);
  record.site.store(event.site, kRelaxed);
  record.sequence.store(event.sequence, kRelaxed);
  record.bytes.store(event.bytes, kRelaxed);
  record.begun_ns.store(now, kRelaxed);
  record.completed_ns.store(0, kRelaxed);
  record.commit.store(number + 1, kRelease);
  ring_->last_event_ns.store(now, kRelaxed);
  return number;
}

uint64_t FlightWriter::Begin(const FlightEvent& event) {
  if (ring_ == nullptr) return 0;
  const int64_t now = MonotonicNanoseconds();
  ring_->open.fetch_add(1, kRelaxed);
  pending_since_.store(now, kRelaxed);
  if (event.kind == FlightKind::kPointToPoint) ring_->point_to_point.fetch_add(1, kRelaxed);
  return Write(event, now);
}

void FlightWriter::Complete(uint64_t number) {
  if (ring_ == nullptr) return;
  const int64_t now = MonotonicNanoseconds();
  FlightRecord& record = RecordOf(*ring_, number);
  if (record.commit.load(std::memory_order_acquire) == number + 1) {
    record.completed_ns.store(now, kRelease);
  }
  ring_->open.fetch_sub(1, kRelaxed);
  ring_->last_event_ns.store(now, kRelaxed);
}

void FlightWriter::Turn(RankPhase phase, uint32_t site) {
  if (ring_ == nullptr) return;
  const RankPhase former = ring_->phase.load(kRelaxed);
  if (former == phase) return;
  const int64_t now = MonotonicNanoseconds();
  // By an exchange, so that the words add up even if two threads turn at once.
  const int64_t stretch = now - ring_->phase_since_ns.exchange(now, kRelaxed);
  std::atomic<int64_t>& longest = ring_->longest_ns[static_cast<uint32_t>(former)];
  if (stretch > longest.load(kRelaxed)) longest.store(stretch, kRelaxed);
  // The reducer of DDP waits at the end of backward, in C++: since it began its last collective
  // there was little else to do.
  const int64_t pending = pending_since_.exchange(0, kRelaxed);
  if (former == RankPhase::kBackward && pending != 0) Wait(pending, now);
  Spend(now);
  ring_->spent_ns[static_cast<uint32_t>(former)].fetch_add(stretch, kRelaxed);
  ring_->phase.store(phase, kRelease);
  Write({.kind = FlightKind::kPhase, .operation = static_cast<uint32_t>(phase), .site = site}, now);
}

void FlightWriter::Spend(int64_t now) {
  const int64_t stretch = std::max<int64_t>(0, now - spent_to_);
  spent_to_ = now;
  switch (ring_->phase.load(kRelaxed)) {
    case RankPhase::kData: data_ += stretch; return;
    case RankPhase::kForward:
    case RankPhase::kBackward:
    case RankPhase::kOptimizer:
    case RankPhase::kUnknown:
    case RankPhase::kStart: own_ += stretch; return;
    case RankPhase::kCheckpoint:
    case RankPhase::kCompile:
    case RankPhase::kEvaluation:
    case RankPhase::kRestore:
    case RankPhase::kEnd: break;
  }
  other_ += stretch;
}

void FlightWriter::Wait(int64_t since_ns, int64_t now) {
  Spend(std::max(since_ns, spent_to_));
  const int64_t other = other_;
  const int64_t own = own_;
  const int64_t data = data_;
  Spend(now);
  if (other_ != other) return;  // ranks wait there for each other's checkpoints
  const int64_t waited = own_ - own + data_ - data;
  ring_->spent_ns[kSpentWaiting].fetch_add(waited, kRelaxed);
  waited_ += waited;
  own_ = own;
  data_ = data;
}

void FlightWriter::Waited(int64_t since_ns) {
  if (ring_ == nullptr) return;
  pending_since_.store(0, kRelaxed);
  Wait(since_ns, MonotonicNanoseconds());
}

void FlightWriter::AddSteps(int64_t whole, int64_t made) {
  const StepSums each = {.whole = Duration::Nanoseconds((whole - other_) / made),
                         .own = Duration::Nanoseconds(own_ / made),
                         .data = Duration::Nanoseconds(data_ / made),
                         .waited = Duration::Nanoseconds(waited_ / made)};
  bool has_grown = false;
  for (int64_t i = 0; i < made; ++i) has_grown = meter_.Add(each) || has_grown;
  if (!has_grown) return;
  RingHeader& ring = *ring_;
  const StepSums& sums = meter_.sums();
  const uint64_t number = ring.sums_begun.load(kRelaxed) + 1;
  ring.sums_begun.store(number, kRelaxed);
  std::atomic_thread_fence(kRelease);
  ring.steps.store(sums.steps, kRelaxed);
  ring.whole_ns.store(sums.whole.nanoseconds(), kRelaxed);
  ring.own_ns.store(sums.own.nanoseconds(), kRelaxed);
  ring.data_ns.store(sums.data.nanoseconds(), kRelaxed);
  ring.waited_ns.store(sums.waited.nanoseconds(), kRelaxed);
  ring.sums_commit.store(number, kRelease);
}

void FlightWriter::Step(uint64_t made) {
  if (ring_ == nullptr || made == 0) return;
  const int64_t now = MonotonicNanoseconds();
  const int64_t last = ring_->last_step_ns.exchange(now, kRelaxed);
  Spend(now);
  if (last != 0) {
    const auto steps = static_cast<int64_t>(made);
    ring_->step_times[StepTimeBucket((now - last) / steps)].fetch_add(made, kRelaxed);
    AddSteps(now - last, steps);
  }
  own_ = data_ = waited_ = other_ = 0;
  ring_->last_event_ns.store(now, kRelaxed);
}

}  // namespace paceline::client
