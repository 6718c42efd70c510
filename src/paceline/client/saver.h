#pragma once

// The training process's end of its arena, to which only it writes.

#include <sys/types.h>

#include <array>
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
  // Makes or opens the arena and becomes its writer. kBusy: another living process is the writer.
  // Other failures as in Arena::OpenOrMake.
  static Result<std::unique_ptr<Saver>> Open(const std::string& path,
                                             const ckpt::ArenaIdentity& identity,
                                             const ckpt::ArenaSize& size);

  // Reserves and maps the memory of all slots, in the order in which saves take them. Runs in one
  // thread, beside saves; the thread has low priority meanwhile, because training goes first. A
  // save that needs memory takes over from it. kFull: saves continue in the slots that have memory.
  // Calls `then` for each slot that gets its memory; a failure of `then` ends it.
  Result<void> Reserve(const std::function<Result<void>(uint32_t slot)>& then = nullptr);
  // Any thread: ends a running Reserve within milliseconds. Saves still reserve what they need.
  void StopReserving() { is_stopped_ = true; }
  // Frees the memory of the arena if this process made it and saved nothing. Call it after Reserve
  // has ended. A later save finds memory again, unless `removes` removed the file, too. False:
  // nothing was freed.
  bool GiveBackUnused(bool removes);
  // This process made the arena, so it has no image of an earlier process.
  bool is_new() const { return is_new_; }
  // Two are enough: one to write, one with a complete image.
  uint32_t reserved_slots() const;

  uint64_t image_bytes_max() const { return arena_->image_bytes_max(); }

  // See ckpt::Save. Sets `what.keep` to the step that the agent holds. Finds a slot's memory itself
  // if Reserve has not come to it. False: no slot is free, so this step is left out. kFull: there
  // is no memory for two slots.
  Result<bool> Save(const ckpt::Image& layout, std::span<const void* const> sources,
                    ckpt::SaveStep what);

  // For callers that fill the slot in another way; see ckpt::BeginImage. Waits as Save does. Call
  // Saved once the image is sealed. Returns nullopt if no slot is free.
  Result<std::optional<uint32_t>> Begin(const ckpt::Image& layout, ckpt::SaveStep what);
  void Saved(SavedStep saved) { held_.Saved(saved); }
  ckpt::Arena* arena() { return arena_.get(); }

 private:
  Saver(std::unique_ptr<ckpt::Arena> arena, Fd lock, std::string path);

  // Reserves the slot's next piece in the background. True: the slot is complete.
  Result<bool> ReservePiece(uint32_t slot);
  // Gives back the memory of a slot that is not complete.
  void GiveBackPart(uint32_t slot);
  // Repeats `take` until it has a slot. False: there is none.
  Result<bool> TakeSlot(ckpt::SaveStep* what, const std::function<Result<void>()>& take);
  // Reserves another slot. False: there is none.
  Result<bool> ReserveAnother();

  const std::unique_ptr<ckpt::Arena> arena_;
  const std::string path_;
  const pid_t owner_;
  const bool is_new_;
  std::atomic<bool> has_saved_ = false;
  std::atomic<bool> is_stopped_ = false;
  // A save waits for memory, so the thread in Reserve gives way after its present piece.
  std::atomic<bool> is_awaited_ = false;
  std::mutex mutex_;  // guards reserved_to_; held while a piece is reserved
  std::condition_variable has_taken_over_;
  std::array<uint64_t, kArenaSlotsMax> reserved_to_{};  // bytes of each slot
  const Fd lock_;
  HeldStep held_;  // the step that the agent wants to keep
};

}  // namespace paceline::client
