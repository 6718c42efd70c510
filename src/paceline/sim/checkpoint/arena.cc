#include "paceline/sim/checkpoint/arena.h"

#include <algorithm>
#include <array>
#include <utility>

#include "paceline/base/check.h"

namespace paceline::sim {

uint64_t MixContent(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e37'79b9'7f4a'7c15ULL + b + 0x2545'f491'4f6c'dd1dULL;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return z ^ (z >> 31);
}

int64_t SaveRun::Traced(int64_t i) const {
  // After this many saves an older image is overwritten.
  constexpr int64_t kTraces = 5;
  if (i < first + kTraces || i > last - kTraces) return i;
  if (i + kTraces < held) return std::min(held - kTraces, last - kTraces);
  return i > held + kTraces ? last - kTraces : i;
}

uint64_t SimImage::root() const { return is_replica ? content : MixContent(content, rank + 1); }

uint64_t SimImage::image_root() const { return MixContent(root(), rank + 1'000) | 1; }

void SimArena::ForgetUnfinished() {
  for (Slot& slot : slots_) {
    if (slot.state == ArenaSlotState::kWriting) slot.state = ArenaSlotState::kFree;
  }
  held_ = HeldStep();
}

std::optional<uint32_t> SimArena::Begin(SavedStep saved) {
  std::array<ArenaSlotView, kArenaSlotsMax> views;
  CHECK(slots_.size() <= views.size(), "an arena has few slots");
  for (size_t i = 0; i < slots_.size(); ++i) {
    views[i].state = slots_[i].state;
    views[i].image.generation = slots_[i].image.saved.generation;
    views[i].image.step = slots_[i].image.saved.step;
    views[i].image.branch = slots_[i].image.saved.branch;
  }
  const std::optional<SavedStep> keep = held_.Keep(hold_);
  const auto chosen = ChooseSlot(std::span(views).first(slots_.size()), keep);
  if (!chosen.has_value()) return std::nullopt;
  slots_[*chosen].state = ArenaSlotState::kWriting;
  held_.Saved(saved);
  return chosen;
}

void SimArena::Seal(uint32_t slot, const SimImage& image) {
  slots_[slot] = {ArenaSlotState::kSealed, 0, image};
}

SimArena::Slot* SimArena::WholeOf(SavedStep saved) {
  for (Slot& slot : slots_) {
    const bool is_whole =
        slot.state == ArenaSlotState::kSealed || slot.state == ArenaSlotState::kReading;
    if (is_whole && slot.image.saved == saved) return &slot;
  }
  return nullptr;
}

void SimArena::ForgetReaders() {
  for (Slot& slot : slots_) {
    if (slot.state == ArenaSlotState::kReading) slot.state = ArenaSlotState::kSealed;
    slot.claims = 0;
  }
}

bool SimArena::BeginRead(SavedStep saved) {
  Slot* slot = WholeOf(saved);
  if (slot == nullptr) return false;
  slot->state = ArenaSlotState::kReading;
  ++slot->claims;
  return true;
}

void SimArena::EndRead(SavedStep saved) {
  Slot* slot = WholeOf(saved);
  if (slot == nullptr || slot->claims == 0 || --slot->claims > 0) return;
  slot->state = ArenaSlotState::kSealed;
}

std::vector<const SimImage*> SimArena::Sealed() const {
  std::vector<const SimImage*> found;
  for (const Slot& slot : slots_) {
    const bool is_whole =
        slot.state == ArenaSlotState::kSealed || slot.state == ArenaSlotState::kReading;
    if (is_whole) found.push_back(&slot.image);
  }
  return found;
}

const SimImage* SimArena::Find(SavedStep saved) const {
  for (const SimImage* image : Sealed()) {
    if (image->saved == saved) return image;
  }
  return nullptr;
}

bool SimArena::Flip(uint64_t chance) {
  std::vector<Slot*> whole;
  for (Slot& slot : slots_) {
    if (slot.state == ArenaSlotState::kSealed) whole.push_back(&slot);
  }
  if (whole.empty()) return false;
  whole[chance % whole.size()]->image.is_flipped = true;
  return true;
}

SimArena* ArenaShelf::Find(const ArenaPlace& place) {
  const auto found = arenas_.find(place);
  return found == arenas_.end() ? nullptr : &found->second;
}

SimArena& ArenaShelf::OpenOrMake(const ArenaPlace& place, uint32_t slot_count) {
  return arenas_.try_emplace(place, slot_count).first->second;
}

std::vector<MemoryImage> ArenaShelf::Images(bool says_replica) const {
  std::vector<MemoryImage> images;
  for (const auto& [place, arena] : arenas_) {
    for (const SimImage* image : arena.Sealed()) {
      images.push_back({.rank = Rank(place.rank),
                        .place = place.node,
                        .is_copy = place.is_copy,
                        .saved = image->saved,
                        .world_size = image->world_size,
                        .file_bytes = 1'000'000,
                        .file_root = image->root(),
                        .root = image->image_root(),
                        .is_replica = says_replica && image->is_replica});
    }
  }
  return images;
}

}  // namespace paceline::sim
