#pragma once

// A host's memory for checkpoints: arenas with slots, as in ckpt/image/arena.h, but without bytes.
// The production code decides which slot an image takes, what is kept and what is newest.
//
// Each image also has facts that no process can know: whose state it really holds (`content`), and
// whether a bit was flipped.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/arena_layout.h"
#include "paceline/model/checkpoint.h"

namespace paceline::sim {

// One rank's image of a state of the training.
struct SimImage {
  uint32_t rank = 0;
  SavedStep saved;
  uint32_t world_size = 0;
  uint64_t content = 0;     // of the whole state; the same on all ranks
  int64_t done = 0;         // steps done in that state, whatever the script calls them
  bool is_replica = false;  // every rank has the whole state
  bool is_flipped = false;  // its bytes have changed, which a reader notices
  bool is_zombies = false;  // saved by a rank of an ended world, after its end
  Instant sealed_at;        // of a copy
  // Equal for equal files.
  uint64_t root() const;
  // The hash of the file with its notes.
  uint64_t image_root() const;
};

class SimArena {
 public:
  explicit SimArena(uint32_t slot_count) : slots_(slot_count) {}

  uint32_t slot_count() const { return static_cast<uint32_t>(slots_.size()); }

  // ---- its rank ----
  void ForgetUnfinished();
  // Takes a slot to fill; none if all are in use.
  std::optional<uint32_t> Begin(SavedStep saved);
  void Seal(uint32_t slot, const SimImage& image);

  // ---- its node's agent ----
  void SetHold(std::optional<SavedStep> from) { hold_ = from; }
  std::optional<SavedStep> hold() const { return hold_; }
  void ForgetReaders();
  bool BeginRead(SavedStep saved);
  void EndRead(SavedStep saved);

  // The complete images.
  std::vector<const SimImage*> Sealed() const;
  const SimImage* Find(SavedStep saved) const;
  // Flips a bit of a complete image; false if there is none.
  bool Flip(uint64_t chance);

 private:
  struct Slot {
    ArenaSlotState state = ArenaSlotState::kFree;
    uint32_t claims = 0;  // of readers; several may read the same image
    SimImage image;
  };
  Slot* WholeOf(SavedStep saved);

  std::vector<Slot> slots_;
  std::optional<SavedStep> hold_;  // in the arena's header
  HeldStep held_;                  // in its rank
};

struct ArenaPlace {
  std::string node;
  uint32_t rank = 0;
  bool is_copy = false;
  auto operator<=>(const ArenaPlace&) const = default;
};

// All arenas of a host. They outlive its processes and are lost when it loses power.
class ArenaShelf {
 public:
  SimArena* Find(const ArenaPlace& place);
  SimArena& OpenOrMake(const ArenaPlace& place, uint32_t slot_count);
  std::map<ArenaPlace, SimArena>& all() { return arenas_; }
  const std::map<ArenaPlace, SimArena>& all() const { return arenas_; }
  void Clear() { arenas_.clear(); }
  std::vector<MemoryImage> Images(bool says_replica) const;

 private:
  std::map<ArenaPlace, SimArena> arenas_;
};

// Saves number `first` to `last` without a pause; the rank was asked to keep the first save from
// `held` on. In a long run only saves that leave a trace in the slots are made.
struct SaveRun {
  int64_t first = 0;
  int64_t last = 0;
  int64_t held = 0;
  // The save to make instead of number `i`: itself or a later one.
  int64_t Traced(int64_t i) const;
};

// A number that identifies a state.
uint64_t MixContent(uint64_t a, uint64_t b);

}  // namespace paceline::sim
