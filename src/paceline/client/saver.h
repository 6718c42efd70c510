#pragma once

// A training process's side of its arena: the only writer of it.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "paceline/base/fd.h"
#include "paceline/base/result.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/save.h"
#include "paceline/model/arena_layout.h"

namespace paceline::client {

class Saver {
 public:
  // Makes or finds the arena and takes the place of its writer. kBusy: another process that lives
  // writes there. Otherwise as Arena::OpenOrMake.
  static Result<std::unique_ptr<Saver>> Open(const std::string& path,
                                             const ckpt::ArenaIdentity& identity,
                                             const ckpt::ArenaSize& size);

  // Finds and maps the memory of all slots, in the order in which saves take them; saves go on
  // meanwhile. One thread, beside that of Save. kFull: saves go on in the slots that there are.
  // `then` is called with each slot that has its memory, and ends it by failing.
  Result<void> Reserve(const std::function<Result<void>(uint32_t slot)>& then = nullptr);
  // Any thread: ends a Reserve that runs, within milliseconds. Saves still find what they need.
  void StopReserving() { is_stopped_ = true; }
  // Two are enough: one to write, one that is whole.
  uint32_t reserved_slots() const;

  uint64_t image_bytes_max() const { return arena_->image_bytes_max(); }

  // See ckpt::Save; `what.keep` is set here, by what the agent asked for. Waits for the memory of a
  // slot when Reserve has not come to it. False: no slot may be taken now, and this step is left
  // out. kFull: there is no memory for two slots.
  Result<bool> Save(const ckpt::Image& layout, std::span<const void* const> sources,
                    ckpt::SaveStep what);

  // For who fills the slot another way; see ckpt::BeginImage, and Save for what it waits for.
  // Saved follows when that image is sealed. Nothing: no slot may be taken now.
  Result<std::optional<uint32_t>> Begin(const ckpt::Image& layout, ckpt::SaveStep what);
  void Saved(SavedStep saved) { held_.Saved(saved); }
  ckpt::Arena* arena() { return arena_.get(); }

 private:
  Saver(std::unique_ptr<ckpt::Arena> arena, Fd lock)
      : arena_(std::move(arena)), lock_(std::move(lock)) {}

  Result<void> ReserveSlot(uint32_t slot, const std::atomic<bool>* is_stopped = nullptr);
  // Tries until `take` has a slot; false: there is none.
  Result<bool> TakeSlot(ckpt::SaveStep* what, const std::function<Result<void>()>& take);
  // False: there is no other.
  Result<bool> ReserveAnother();

  const std::unique_ptr<ckpt::Arena> arena_;
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_reserving_ = false;  // guarded by mutex_: one slot at a time
  const Fd lock_;
  HeldStep held_;  // what the agent has asked to stay
};

}  // namespace paceline::client
