#pragma once

// The memory of a host for checkpoints: arenas with slots, as ckpt/image/arena.h has them, without
// their bytes. Which slot an image takes, what is kept and what is newest is decided by the same
// code.
//
// What no process can know stands beside it: whose state an image really holds (`content`), and
// whether a bit of it was flipped.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/arena_layout.h"
#include "paceline/model/checkpoint.h"

namespace paceline::sim {

// One rank's part of a state of the training.
struct SimImage {
  uint32_t rank = 0;
  SavedStep saved;
  uint32_t world_size = 0;
  uint64_t content = 0;     // of the whole state; the same on all ranks
  int64_t done = 0;         // steps that the state has in it, whatever the script calls them
  bool is_replica = false;  // every rank has all of it
  bool is_flipped = false;  // its bytes are not those that were saved; a reader sees that
  bool is_zombies = false;  // saved by a rank of a world that had ended, after its end
  Instant sealed_at;        // of a copy
  // Equal for equal files.
  uint64_t root() const;
  // Of the file with its notes.
  uint64_t image_root() const;
};

class SimArena {
 public:
  explicit SimArena(uint32_t slot_count) : slots_(slot_count) {}

  uint32_t slot_count() const { return static_cast<uint32_t>(slots_.size()); }

  // ---- its rank ----
  void ForgetUnfinished();
  // A slot that is being filled; nothing when all are in use.
  std::optional<uint32_t> Begin(SavedStep saved);
  void Seal(uint32_t slot, const SimImage& image);

  // ---- its node's agent ----
  void SetHold(std::optional<SavedStep> from) { hold_ = from; }
  std::optional<SavedStep> hold() const { return hold_; }
  void ForgetReaders();
  bool BeginRead(SavedStep saved);
  void EndRead(SavedStep saved);

  // Whole ones.
  std::vector<const SimImage*> Sealed() const;
  const SimImage* Find(SavedStep saved) const;
  // A bit of a whole image; false when there is none.
  bool Flip(uint64_t chance);

 private:
  struct Slot {
    ArenaSlotState state = ArenaSlotState::kFree;
    uint32_t claims = 0;  // of readers; several may read the same image
    SimImage image;
  };
  Slot* WholeOf(SavedStep saved);

  std::vector<Slot> slots_;
  std::optional<SavedStep> hold_;  // the header's words
  HeldStep held_;                  // in its rank
};

struct ArenaPlace {
  std::string node;
  uint32_t rank = 0;
  bool is_copy = false;
  auto operator<=>(const ArenaPlace&) const = default;
};

// All arenas of a host; they outlive every process of it, and go with its power.
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

// Saves in a row, from number `first` to `last`, with nothing between them; the rank was asked to
// keep the first from `held` on. Of a long run only those are made that leave a trace in the slots.
struct SaveRun {
  int64_t first = 0;
  int64_t last = 0;
  int64_t held = 0;
  // The one to make instead of `i`: `i` itself, or a later one.
  int64_t Traced(int64_t i) const;
};

// A number that tells states apart.
uint64_t MixContent(uint64_t a, uint64_t b);

}  // namespace paceline::sim
