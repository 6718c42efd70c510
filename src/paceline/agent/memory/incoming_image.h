#pragma once

// An image that is being fetched into a copy's arena. One thread fills it, chunk by chunk, each
// verified while it is copied; others may already give it on, up to where it is whole. Nobody finds
// it in the arena before all of it is there: until Seal the slot counts as unfinished.
//
// The arena has two slots, and the one with the newest whole copy is never the one that is filled,
// so a fetch that breaks off leaves the copy before it as it was.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "paceline/base/result.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/model/checkpoint.h"
#include "paceline/wire/bulk/bulk_format.h"
#include "paceline/wire/bulk/bulk_server.h"

namespace paceline::agent {

class IncomingImage : public std::enable_shared_from_this<IncomingImage> {
 public:
  struct Place {
    std::string path;  // of the copy's arena
    ckpt::ArenaIdentity identity;
    // Is there room for so many bytes? Empty: yes.
    std::function<std::string(uint64_t)> lacking;
    // That arena, where somebody has mapped it already: a mapping of its own would fault for each
    // page again, which takes a third of the time that the bytes take.
    std::shared_ptr<ckpt::Arena> mapped = {};
  };
  IncomingImage(Place place, FetchOrder order)
      : place_(std::move(place)), order_(std::move(order)) {}

  // ---- the thread that fills it ----

  // Makes room, once. kDamaged: it is not the image of the order, or not the one that was begun.
  // kFull: there is no memory for it. kBusy: somebody reads both slots.
  Result<void> Begin(const wire::BulkFacts& facts);
  // Chunks of the file, then of the notes, that are here.
  size_t done() const { return done_; }
  bool is_whole() const { return has_begun_ && done_ == facts_.hashes.size(); }
  // Takes the next chunk from `read`, which fills what it is given. kDamaged: its hash is another.
  using Reader = std::function<Result<void>(std::byte*, size_t)>;
  Result<void> TakeChunk(const Reader& read);
  // All chunks are there, the last of them from `who`: visible from now on.
  Result<void> Seal(const std::string& who);
  // There will be no more of it. Again after Seal: nothing.
  void Abandon();

  // ---- any thread ----

  // For others, as soon as it has begun, which is awaited for a moment.
  wire::BulkImage Offer();
  bool is_cancelled() const;
  void Cancel();
  // False: it was cancelled.
  bool Sleep(std::chrono::milliseconds time);
  // What Cancel shall end besides, until this is called again; none: nothing.
  void SetBreaker(std::function<void()> breaker);

  const FetchOrder& order() const { return order_; }
  // After Seal.
  const std::string& from() const { return from_; }

 private:
  enum class State { kWaiting, kFilling, kSealed, kAbandoned };
  // Room for so many bytes: the arena that is there, or a new one.
  Result<std::shared_ptr<ckpt::Arena>> ArenaFor(uint64_t bytes);
  bool AwaitChunk(size_t chunk);
  std::byte* ChunkAt(size_t chunk) const;

  const Place place_;
  const FetchOrder order_;
  bool has_begun_ = false;
  std::string made_at_;  // of an arena that takes its name when it is sealed; empty: it has it
  std::shared_ptr<ckpt::Arena> arena_;  // owners: this, and those who give it on
  uint32_t slot_ = 0;
  wire::BulkFacts facts_;
  size_t done_ = 0;
  std::string from_;

  mutable std::mutex mutex_;  // guards the four below; what is above changes before kFilling
  std::condition_variable changed_;
  State state_ = State::kWaiting;
  size_t visible_ = 0;
  bool is_cancelled_ = false;
  std::function<void()> breaker_;
  // Maps the slot's pages ahead of the bytes: page faults would take the thread that receives them
  // longer than the copy. The last member: it ends before the others.
  std::jthread mapper_;
};

}  // namespace paceline::agent
