// The checkpoint arena of one rank: a file in memory with a few slots. Each slot has room for one
// checkpoint: the rank's file in its later form on disk, and its notes (small state, as JSON).
// docs/formats/arena.md is the specification; this header is its C++ form and does no I/O: the
// caller maps the file.
//
//   header, 4 KiB | control of slot 0, of slot 1, … (4 KiB multiples) | image 0, image 1, …
//
// The rank writes images and its agent reads them; either may be killed at any instruction. A
// slot's content is valid only while its state word is kSealed (or kReading) and its check is
// correct.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "paceline/base/fnv.h"
#include "paceline/model/saved_step.h"

namespace paceline {

inline constexpr uint64_t kArenaMagic = 0x0031'414E'4552'4150ULL;  // the bytes "PARENA1\0"
inline constexpr uint32_t kArenaVersion = 3;
inline constexpr uint64_t kArenaPage = 4096;
// Alignment of images, so that huge pages can hold them.
inline constexpr uint64_t kArenaImageAlignment = uint64_t{2} << 20;
inline constexpr uint32_t kArenaSlotsMax = 8;

struct ArenaHeader {
  std::atomic<uint64_t> magic;  // commit word: stored last by its creator
  uint32_t version;
  uint32_t slot_count;
  uint64_t image_bytes;    // room of each image
  uint64_t control_bytes;  // of each slot's control
  uint32_t rank;
  uint32_t user;     // numeric
  char boot_id[40];  // padded with NUL, as both below
  char job_id[136];
  uint64_t check;  // ArenaCheck of all fields before it, except the magic
  // Written by the agent: the first save from this one on goes to storage and must stay in memory
  // until these words change. `hold` is 0, or 1 + the step. The agent sets it to 0 before it
  // changes the two others, so a reader that finds `hold` unchanged before and after them has three
  // consistent values.
  std::atomic<uint64_t> hold;
  std::atomic<uint64_t> hold_generation;
  std::atomic<uint64_t> hold_branch;
  char reserved[3848];
};
static_assert(sizeof(ArenaHeader) == kArenaPage && offsetof(ArenaHeader, check) == 216);

// kUnreserved: the file system has not allocated its memory. kFree: empty. kWriting: the rank fills
// it. kSealed: complete. kReading: complete, and an agent reads it now.
enum class ArenaSlotState : uint8_t {
  kFree = 0,
  kWriting = 1,
  kSealed = 2,
  kReading = 3,
  kUnreserved = 4
};

// The saver declares that all ranks of the world hold the same tensors.
inline constexpr uint64_t kArenaReplica = 1;

// At the start of a slot's control. The hashes of the file's chunks follow, then those of the
// notes' chunks.
struct ArenaSlot {
  // The state in the low byte. Above it a counter that grows with every change, so that a reader
  // does not mistake a later state for an earlier one.
  std::atomic<uint64_t> state;
  std::atomic<uint64_t> generation;
  std::atomic<int64_t> step;
  std::atomic<uint64_t> world_size;
  std::atomic<uint64_t> file_bytes;
  std::atomic<uint64_t> head_bytes;   // of the file, before the first tensor's data
  std::atomic<uint64_t> notes_bytes;  // they begin at the next multiple of kArenaPage
  std::atomic<uint64_t> file_root;    // hash of the hashes of the file's chunks
  std::atomic<uint64_t> root;         // hash of all hashes
  std::atomic<uint64_t> flags;        // kArenaReplica
  std::atomic<uint64_t> branch;
  std::atomic<uint64_t> check;  // ArenaCheck of the ten words between it and the state
  uint64_t reserved[4];
};
static_assert(sizeof(ArenaSlot) == 128);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Detects torn or overwritten words.
inline uint64_t ArenaCheck(std::span<const std::byte> bytes) { return Fnv1a(bytes); }

// A slot's content as a reader saw it.
struct ArenaImage {
  uint32_t slot = 0;
  uint64_t generation = 0;
  int64_t step = -1;
  uint64_t world_size = 0;
  uint64_t file_bytes = 0;
  uint64_t head_bytes = 0;
  uint64_t notes_bytes = 0;
  uint64_t file_root = 0;
  uint64_t root = 0;
  uint64_t flags = 0;
  uint64_t branch = 0;
  bool operator==(const ArenaImage&) const = default;
  SavedStep saved() const { return {.generation = generation, .step = step, .branch = branch}; }
};

constexpr uint64_t ArenaRoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}
// The offset of an image's notes from the image's start.
constexpr uint64_t NotesAt(uint64_t file_bytes) { return ArenaRoundUp(file_bytes, kArenaPage); }

inline uint64_t CheckOf(const ArenaImage& image) {
  const std::array<uint64_t, 10> words = {image.generation, static_cast<uint64_t>(image.step),
                                          image.world_size, image.file_bytes,
                                          image.head_bytes, image.notes_bytes,
                                          image.file_root,  image.root,
                                          image.flags,      image.branch};
  return ArenaCheck(std::as_bytes(std::span(words)));
}

inline bool IsNewer(const ArenaImage& a, const ArenaImage& b) { return a.saved() > b.saved(); }

// ---- which slot the next image may take ----

struct ArenaSlotView {
  ArenaSlotState state = ArenaSlotState::kFree;
  ArenaImage image;  // of a slot that is sealed or being read
};

// The slot for the next image: a free one, else the oldest sealed one, but not `keep` (the newest
// step that every rank of the world has) and not the newest. None: all are in use, so the save must
// wait or be skipped.
inline std::optional<uint32_t> ChooseSlot(std::span<const ArenaSlotView> slots,
                                          std::optional<SavedStep> keep = {}) {
  std::optional<uint32_t> newest;
  std::optional<uint32_t> oldest;
  const auto holds = [](const ArenaSlotView& slot) {
    return slot.state == ArenaSlotState::kSealed || slot.state == ArenaSlotState::kReading;
  };
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (slots[i].state == ArenaSlotState::kFree) return i;
    if (!holds(slots[i])) continue;
    if (!newest.has_value() || IsNewer(slots[i].image, slots[*newest].image)) newest = i;
  }
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (slots[i].state != ArenaSlotState::kSealed || i == newest) continue;
    if (keep.has_value() && slots[i].image.saved() == *keep) continue;
    if (!oldest.has_value() || IsNewer(slots[*oldest].image, slots[i].image)) oldest = i;
  }
  return oldest;
}

// ---- the image that a writer keeps on request ----

// The first image from the requested save on stays until the request changes. A save that begins a
// new branch comes after all saves of the branch before, whatever its step.
class HeldStep {
 public:
  // The image that must stay, given the arena header's present words. Called before each save.
  std::optional<SavedStep> Keep(std::optional<SavedStep> from) {
    if (from != from_) {
      from_ = from;
      held_.reset();
    }
    return held_;
  }
  void Saved(SavedStep saved) {
    if (from_.has_value() && !held_.has_value() && saved >= *from_) held_ = saved;
  }

 private:
  std::optional<SavedStep> from_;  // the last request
  std::optional<SavedStep> held_;  // the image that stays for it
};

}  // namespace paceline
