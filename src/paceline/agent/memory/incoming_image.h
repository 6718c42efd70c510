#pragma once

// An image that is being fetched into a copy's arena. One thread fills it chunk by chunk and
// verifies each chunk. Others may already send on the finished chunks. Until Seal the slot counts
// as unfinished, so no reader finds a partial image.
//
// The arena has two slots. The slot with the newest complete copy is never filled, so an
// interrupted fetch keeps the earlier copy.

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
    // Returns "" if there is room for that many bytes, else what is short.
    std::function<std::string(uint64_t)> lacking;
    // The arena, if it is already mapped. A second mapping would fault in each page again, which
    // takes a third of the copy's time.
    std::shared_ptr<ckpt::Arena> mapped = {};
  };
  IncomingImage(Place place, FetchOrder order)
      : place_(std::move(place)), order_(std::move(order)) {}

  // ---- called by the filling thread ----

  // Makes room, once. kDamaged: it is not the ordered image, or not the one begun before. kFull:
  // there is no memory. kBusy: both slots are being read.
  Result<void> Begin(const wire::BulkFacts& facts);
  // The number of finished chunks: of the file, then of the notes.
  size_t done() const { return done_; }
  bool is_whole() const { return has_begun_ && done_ == facts_.hashes.size(); }
  // Reads the next chunk by `read`, which fills the given memory. kDamaged: its hash is wrong.
  using Reader = std::function<Result<void>(std::byte*, size_t)>;
  Result<void> TakeChunk(const Reader& read);
  // All chunks are complete, the last one from `who`. Makes the image visible.
  Result<void> Seal(const std::string& who);
  // Drops the partial image. Does nothing after Seal.
  void Abandon();

  // ---- called by any thread ----

  // Offers the image to other hosts. Waits a moment for Begin.
  wire::BulkImage Offer();
  bool is_cancelled() const;
  void Cancel();
  // Returns false if the fetch was cancelled.
  bool Sleep(std::chrono::milliseconds time);
  // Sets what Cancel also calls, to interrupt a blocked read. None: nothing.
  void SetBreaker(std::function<void()> breaker);

  const FetchOrder& order() const { return order_; }
  // After Seal.
  const std::string& from() const { return from_; }

 private:
  enum class State { kWaiting, kFilling, kSealed, kAbandoned };
  // Returns an arena with room for `bytes`: the present one, or a new one.
  Result<std::shared_ptr<ckpt::Arena>> ArenaFor(uint64_t bytes);
  bool AwaitChunk(size_t chunk);
  std::byte* ChunkAt(size_t chunk) const;

  const Place place_;
  const FetchOrder order_;
  bool has_begun_ = false;
  std::string made_at_;  // of an arena that gets its name at Seal; empty: it has its name
  std::shared_ptr<ckpt::Arena> arena_;  // owners: this object, and threads that send it
  uint32_t slot_ = 0;
  wire::BulkFacts facts_;
  size_t done_ = 0;
  std::string from_;

  mutable std::mutex mutex_;  // guards the four below; members above change only before kFilling
  std::condition_variable changed_;
  State state_ = State::kWaiting;
  size_t visible_ = 0;
  bool is_cancelled_ = false;
  std::function<void()> breaker_;
  // Maps the slot's pages ahead, because page faults would cost the receiving thread more than the
  // copy. Last member: it must end before the others.
  std::jthread mapper_;
};

}  // namespace paceline::agent
