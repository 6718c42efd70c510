// The progress page: one small file for each node, mapped by the processes that watch or run its
// ranks.
//
// A rank reports "step 1234 is done" by a few stores to memory, and others read them without a
// request. The page outlives the rank, the starter and the agent, so a new agent still finds how a
// rank ended. It is neither a queue nor a lock. Every word has one writer, named in
// docs/formats/progress_page.md, which is the specification; this header is its C++ form and does
// no I/O: the caller maps the file.
//
// Ordering: a writer stores the words of a group and then, with release order, the group's commit
// word. A reader loads the commit word first, with acquire order. All times are CLOCK_MONOTONIC
// nanoseconds of this boot; 0 means "not yet".
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace paceline {

inline constexpr uint64_t kPageMagic = 0x0031'4547'4150'4C50ULL;  // the bytes "PLPAGE1\0"
inline constexpr uint32_t kPageVersion = 1;
inline constexpr uint32_t kPageHeaderBytes = 4096;
inline constexpr uint32_t kPageSlotBytes = 512;
inline constexpr uint32_t kPageSlotsMax = 64;
inline constexpr size_t kPageNameMax = 128;

enum class SlotState : uint32_t { kEmpty = 0, kStarting = 1, kRunning = 2, kExited = 3 };
enum class SlotStart : uint32_t { kNone = 0, kFork = 1, kCold = 2, kExec = 3 };

// Bit of PageSlot::attempt: the starter is preparing the slot, and its other words are invalid.
inline constexpr uint64_t kAttemptPreparing = uint64_t{1} << 63;

// Bits of PageSlot::flags.
inline constexpr uint64_t kSlotStepIsAbsolute = 1;  // steps come from pl.step(n)
inline constexpr uint64_t kSlotStepHook = 2;        // torch's optimizer hook is installed
inline constexpr uint64_t kSlotStepIsOwn = 4;       // counted from the optimizer's own step
inline constexpr uint64_t kSlotLossTold = 8;        // the script reported `loss`, so NaN is a value
inline constexpr uint64_t kSlotSharesBatch = 16;    // the ranks share a global batch

struct PageHeader {
  std::atomic<uint64_t> magic;  // commit word of the header: stored last by its creator
  uint32_t version;
  uint32_t header_bytes;
  uint32_t slot_bytes;
  uint32_t slot_count;
  int64_t created_monotonic_ns;
  char boot_id[40];  // /proc/sys/kernel/random/boot_id, 36 characters, padded with NUL
  char job_id[136];  // at most kPageNameMax characters, padded with NUL
  char node[136];
  char reserved[3752];
};
static_assert(sizeof(PageHeader) == kPageHeaderBytes);
static_assert(offsetof(PageHeader, boot_id) == 32 && offsetof(PageHeader, node) == 208);

struct alignas(64) PageSlot {
  // The slot's process. Writer: the starter.
  std::atomic<uint64_t>
      attempt;  // commit word: one more at every start; kAttemptPreparing meanwhile
  std::atomic<uint64_t> generation;
  std::atomic<int32_t> rank;
  std::atomic<int32_t> local_rank;
  std::atomic<int64_t> pid;
  std::atomic<uint64_t> start_time_ticks;  // field 22 of /proc/PID/stat
  std::atomic<int64_t> spawn_monotonic_ns;
  std::atomic<SlotStart> how;
  uint32_t reserved0;
  uint64_t reserved1;

  // The process's state and end. Writer: the starter.
  std::atomic<SlotState> state;
  std::atomic<int32_t> wait_status;  // as wait4(2) gives it
  std::atomic<uint64_t>
      exit_recorded;  // commit word: 1 once wait_status, exit_monotonic_ns, maxrss_kib hold
  std::atomic<int64_t> exit_monotonic_ns;
  std::atomic<uint64_t> maxrss_kib;
  uint64_t reserved2[4];

  // Steps. Writer: the rank.
  std::atomic<uint64_t> step_count;  // commit word: steps reported in this attempt
  std::atomic<int64_t> step;         // highest step that is done, -1 = none
  std::atomic<int64_t> last_step_monotonic_ns;
  std::atomic<double> loss;         // NaN without kSlotLossTold: not told
  std::atomic<int64_t> saved_step;  // newest reported checkpoint, -1 = none
  std::atomic<uint64_t> flags;
  std::atomic<uint64_t> saved_files;  // checkpoints that the script wrote to paths
  std::atomic<uint64_t> first_step;  // 1 + the absolute step at first_step_monotonic_ns; 0: unknown

  // Events that happen once. Writer: the rank.
  std::atomic<int64_t> writer_pid;  // claimed by compare-exchange from 0: the one process that
                                    // writes these two groups
  std::atomic<int64_t> entered_monotonic_ns;  // just before the script's first line
  std::atomic<int64_t> first_step_monotonic_ns;
  std::atomic<int64_t> error_monotonic_ns;  // an exception reached the top of the script
  std::atomic<uint64_t>
      port_taken;  // 1 = the store's port could not be bound; no budget is charged
  uint64_t reserved4[3];

  // The newest run of bad losses (loss_watch.h). Writer: the rank.
  std::atomic<uint64_t> bad_losses;  // commit word: runs in this attempt
  std::atomic<int64_t> bad_step;     // with which it began
  std::atomic<uint64_t> bad_kind;    // a BadLossKind
  std::atomic<double> bad_value;
  std::atomic<double> usual_value;  // the median before it; NaN = not known
  uint64_t reserved5[3];

  // Steps of the whole training, if they are known. Writer: the rank.
  std::atomic<uint64_t> steps_total;  // 0: not known

  // Lines of output that found no room on the disk, in all attempts: a new one goes on counting.
  // Writer: the rank.
  std::atomic<uint64_t> lines_dropped;
  uint64_t reserved6[22];
};
static_assert(sizeof(PageSlot) == kPageSlotBytes);
static_assert(offsetof(PageSlot, state) == 64 && offsetof(PageSlot, step_count) == 128);
static_assert(offsetof(PageSlot, writer_pid) == 192 && offsetof(PageSlot, port_taken) == 224);
static_assert(offsetof(PageSlot, bad_losses) == 256 && offsetof(PageSlot, steps_total) == 320);
static_assert(offsetof(PageSlot, lines_dropped) == 328);
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<double>::is_always_lock_free);
static_assert(sizeof(std::atomic<double>) == 8 && sizeof(std::atomic<SlotState>) == 4);

// A slot's content as a reader saw it. Fields as in PageSlot.
struct SlotReading {
  uint64_t attempt = 0;
  uint64_t generation = 0;
  int32_t rank = -1;
  int32_t local_rank = -1;
  int64_t pid = 0;
  uint64_t start_time_ticks = 0;
  int64_t spawn_monotonic_ns = 0;
  SlotStart how = SlotStart::kNone;
  SlotState state = SlotState::kEmpty;
  std::optional<int32_t> wait_status;  // set when the exit is recorded
  int64_t exit_monotonic_ns = 0;
  uint64_t maxrss_kib = 0;
  uint64_t step_count = 0;
  int64_t step = -1;
  int64_t last_step_monotonic_ns = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();
  int64_t saved_step = -1;
  uint64_t flags = 0;
  uint64_t saved_files = 0;
  uint64_t first_step = 0;
  uint64_t steps_total = 0;
  int64_t entered_monotonic_ns = 0;
  int64_t first_step_monotonic_ns = 0;
  int64_t error_monotonic_ns = 0;
  bool port_taken = false;
  uint64_t bad_losses = 0;
  int64_t bad_step = 0;
  uint64_t bad_kind = 0;
  double bad_value = 0;
  double usual_value = 0;
  uint64_t lines_dropped = 0;
};

// The identity of a new page.
struct PageIdentity {
  std::string_view job_id;
  std::string_view node;
  std::string_view boot_id;
  uint32_t slot_count = 1;
  int64_t created_monotonic_ns = 0;
};

constexpr size_t PageBytes(uint32_t slot_count) {
  return kPageHeaderBytes + static_cast<size_t>(slot_count) * kPageSlotBytes;
}

inline PageSlot& SlotOf(PageHeader& page, uint32_t index) {
  return reinterpret_cast<PageSlot*>(reinterpret_cast<char*>(&page) + kPageHeaderBytes)[index];
}
inline const PageSlot& SlotOf(const PageHeader& page, uint32_t index) {
  return SlotOf(const_cast<PageHeader&>(page), index);
}

// Text of a NUL-padded header field.
template <size_t N>
std::string_view PageText(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

// Prepares `slot` for a new attempt and resets all its words but lines_dropped. Only the starter
// may call it, if no process of the former attempt lives. Returns the attempt's number, which
// PublishAttempt makes visible. A reader of the old words then sees that the attempt has changed.
inline uint64_t ClearSlot(PageSlot& slot) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const uint64_t former = slot.attempt.load(kRelaxed) & ~kAttemptPreparing;
  slot.attempt.store(former | kAttemptPreparing, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (auto* word :
       {&slot.generation, &slot.start_time_ticks, &slot.exit_recorded, &slot.maxrss_kib,
        &slot.step_count, &slot.flags, &slot.saved_files, &slot.first_step, &slot.port_taken,
        &slot.bad_losses, &slot.bad_kind, &slot.steps_total}) {
    word->store(0, kRelaxed);
  }
  for (auto* word : {&slot.pid, &slot.spawn_monotonic_ns, &slot.exit_monotonic_ns,
                     &slot.last_step_monotonic_ns, &slot.writer_pid, &slot.entered_monotonic_ns,
                     &slot.first_step_monotonic_ns, &slot.error_monotonic_ns}) {
    word->store(0, kRelaxed);
  }
  slot.rank.store(-1, kRelaxed);
  slot.local_rank.store(-1, kRelaxed);
  slot.wait_status.store(0, kRelaxed);
  slot.how.store(SlotStart::kNone, kRelaxed);
  slot.state.store(SlotState::kEmpty, kRelaxed);
  slot.step.store(-1, kRelaxed);
  slot.saved_step.store(-1, kRelaxed);
  slot.loss.store(std::numeric_limits<double>::quiet_NaN(), kRelaxed);
  slot.bad_step.store(0, kRelaxed);
  slot.bad_value.store(0, kRelaxed);
  slot.usual_value.store(0, kRelaxed);
  return former + 1;
}

inline void PublishAttempt(PageSlot& slot, uint64_t attempt) {
  slot.attempt.store(attempt, std::memory_order_release);
}

// Writes a new page into zeroed memory of PageBytes(identity.slot_count) bytes. False if a name is
// too long or the slot count is out of range; nothing is written then.
inline bool FormatPage(std::span<std::byte> memory, const PageIdentity& identity) {
  if (identity.slot_count < 1 || identity.slot_count > kPageSlotsMax ||
      memory.size() < PageBytes(identity.slot_count) || identity.job_id.size() > kPageNameMax ||
      identity.node.size() > kPageNameMax ||
      identity.boot_id.size() >= sizeof(PageHeader::boot_id)) {
    return false;
  }
  auto& page = *reinterpret_cast<PageHeader*>(memory.data());
  page.version = kPageVersion;
  page.header_bytes = kPageHeaderBytes;
  page.slot_bytes = kPageSlotBytes;
  page.slot_count = identity.slot_count;
  page.created_monotonic_ns = identity.created_monotonic_ns;
  std::memcpy(page.boot_id, identity.boot_id.data(), identity.boot_id.size());
  std::memcpy(page.job_id, identity.job_id.data(), identity.job_id.size());
  std::memcpy(page.node, identity.node.data(), identity.node.size());
  for (uint32_t i = 0; i < identity.slot_count; ++i) {
    ClearSlot(SlotOf(page, i));
    PublishAttempt(SlotOf(page, i), 0);
  }
  page.magic.store(kPageMagic, std::memory_order_release);
  return true;
}

// The page in `memory`, or null with the reason in *why. The file may have been written by anyone,
// so all of it is checked.
inline const PageHeader* CheckPage(std::span<const std::byte> memory, std::string_view* why) {
  const auto refuse = [why](std::string_view reason) -> const PageHeader* {
    if (why != nullptr) *why = reason;
    return nullptr;
  };
  if (memory.size() < kPageHeaderBytes) return refuse("the file is shorter than a page header");
  const auto& page = *reinterpret_cast<const PageHeader*>(memory.data());
  if (page.magic.load(std::memory_order_acquire) != kPageMagic)
    return refuse("this is not a progress page");
  if (page.version != kPageVersion) return refuse("the page has another version");
  if (page.header_bytes != kPageHeaderBytes || page.slot_bytes != kPageSlotBytes) {
    return refuse("the page has another layout");
  }
  if (page.slot_count < 1 || page.slot_count > kPageSlotsMax)
    return refuse("the page's slot count is out of range");
  if (memory.size() < PageBytes(page.slot_count))
    return refuse("the file is shorter than its slots");
  return &page;
}

// A consistent reading of one attempt. None while the starter is preparing the slot: read again
// later.
inline std::optional<SlotReading> ReadSlot(const PageSlot& slot) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  SlotReading r;
  r.attempt = slot.attempt.load(std::memory_order_acquire);
  r.generation = slot.generation.load(kRelaxed);
  r.rank = slot.rank.load(kRelaxed);
  r.local_rank = slot.local_rank.load(kRelaxed);
  r.spawn_monotonic_ns = slot.spawn_monotonic_ns.load(kRelaxed);
  r.how = slot.how.load(kRelaxed);
  if (slot.exit_recorded.load(std::memory_order_acquire) != 0) {
    r.wait_status = slot.wait_status.load(kRelaxed);
    r.exit_monotonic_ns = slot.exit_monotonic_ns.load(kRelaxed);
    r.maxrss_kib = slot.maxrss_kib.load(kRelaxed);
  }
  r.state = slot.state.load(std::memory_order_acquire);
  r.pid = slot.pid.load(kRelaxed);
  r.start_time_ticks = slot.start_time_ticks.load(kRelaxed);
  r.step_count = slot.step_count.load(std::memory_order_acquire);
  r.step = slot.step.load(kRelaxed);
  r.last_step_monotonic_ns = slot.last_step_monotonic_ns.load(kRelaxed);
  r.loss = slot.loss.load(kRelaxed);
  r.saved_step = slot.saved_step.load(kRelaxed);
  r.flags = slot.flags.load(kRelaxed);
  r.saved_files = slot.saved_files.load(kRelaxed);
  r.first_step = slot.first_step.load(kRelaxed);
  r.steps_total = slot.steps_total.load(kRelaxed);
  r.entered_monotonic_ns = slot.entered_monotonic_ns.load(kRelaxed);
  r.first_step_monotonic_ns = slot.first_step_monotonic_ns.load(kRelaxed);
  r.error_monotonic_ns = slot.error_monotonic_ns.load(kRelaxed);
  r.port_taken = slot.port_taken.load(kRelaxed) != 0;
  r.bad_losses = slot.bad_losses.load(std::memory_order_acquire);
  r.bad_step = slot.bad_step.load(kRelaxed);
  r.bad_kind = slot.bad_kind.load(kRelaxed);
  r.bad_value = slot.bad_value.load(kRelaxed);
  r.usual_value = slot.usual_value.load(kRelaxed);
  r.lines_dropped = slot.lines_dropped.load(kRelaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if ((r.attempt & kAttemptPreparing) != 0) return std::nullopt;
  if (slot.attempt.load(kRelaxed) != r.attempt) return std::nullopt;
  return r;
}

}  // namespace paceline
