#include "paceline/agent/memory/incoming_image.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/image/save.h"

namespace paceline::agent {
namespace {

static_assert(wire::kBulkChunkBytes == ckpt::kChunkBytes, "one chunk of hashes is one on the way");

constexpr uint32_t kSlots = 2;
// Small enough to stay in the CPU's caches between hash and copy.
constexpr size_t kPieceBytes = size_t{128} << 10;
constexpr std::chrono::milliseconds kOfferPatience{500};
// Read timeout for one chunk. After it the peer counts as failed.
constexpr std::chrono::seconds kChunkPatience{30};

// Reserves more, because images grow a little from save to save and the arena should not be remade.
uint64_t RoomFor(uint64_t image_bytes) { return image_bytes + image_bytes / 64 + (1 << 16); }

bool IsAt(const ckpt::Arena& arena, const std::string& path) {
  struct stat mapped {};
  struct stat found {};
  return ::fstat(arena.fd(), &mapped) == 0 && ::stat(path.c_str(), &found) == 0 &&
         mapped.st_dev == found.st_dev && mapped.st_ino == found.st_ino;
}

}  // namespace

Result<void> IncomingImage::Begin(const wire::BulkFacts& facts) {
  const auto foreign = [](const char* why) { return Failure{FailureKind::kDamaged, why}; };
  if (has_begun_) {
    return facts == facts_ ? Result<void>() : foreign("it has another image of that step");
  }
  const uint64_t root =
      ckpt::HashOf(facts.hashes.data(), facts.hashes.size() * sizeof(facts.hashes[0]));
  if (root != facts.root) return foreign("its hashes do not agree with themselves");
  if (order_.root != 0 && facts.root != order_.root) {
    return foreign("it is another image than the one that was saved");
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<ckpt::Arena> arena,
                   ArenaFor(ckpt::ImageBytes(facts.file_bytes, facts.notes_bytes)));
  arena->ForgetUnfinished();
  std::optional<uint32_t> slot = arena->BeginWrite();
  bool is_mapped = false;
  for (uint32_t i = 0; i < arena->slot_count() && !slot.has_value(); ++i) {
    if (arena->IsReserved(i)) continue;
    RETURN_IF_ERROR(arena->Reserve(i));
    is_mapped = true;
    slot = arena->BeginWrite();
  }
  if (!slot.has_value()) return Failure{FailureKind::kBusy, "both slots of the copy are in use"};
  arena_ = arena;
  slot_ = *slot;
  facts_ = facts;
  has_begun_ = true;
  if (!is_mapped) {
    mapper_ = std::jthread([this](const std::stop_token& stop) {
      for (size_t chunk = 0; chunk < facts_.hashes.size() && !stop.stop_requested(); ++chunk) {
        arena_->MapAhead(ChunkAt(chunk), facts_.BytesOf(chunk));
      }
    });
  }
  const std::lock_guard lock(mutex_);
  state_ = State::kFilling;
  changed_.notify_all();
  return {};
}

Result<std::shared_ptr<ckpt::Arena>> IncomingImage::ArenaFor(uint64_t bytes) {
  const auto& mapped = place_.mapped;
  if (mapped != nullptr && mapped->image_bytes_max() >= bytes && IsAt(*mapped, place_.path)) {
    return mapped;
  }
  auto present = ckpt::Arena::Open(place_.path, place_.identity);
  if (present.ok() && (*present)->image_bytes_max() >= bytes) {
    return std::shared_ptr<ckpt::Arena>(*std::move(present));
  }
  // Made under another name, so that the present copy stays until the new one is complete.
  const ckpt::ArenaSize size{RoomFor(bytes), kSlots};
  if (const std::string lacking = place_.lacking(ckpt::Arena::BytesFor(size)); !lacking.empty()) {
    return Failure{FailureKind::kFull, lacking};
  }
  made_at_ = place_.path + ".new";
  ::unlink(made_at_.c_str());
  ASSIGN_OR_RETURN(auto made, ckpt::Arena::OpenOrMake(made_at_, place_.identity, size));
  return std::shared_ptr<ckpt::Arena>(std::move(made));
}

std::byte* IncomingImage::ChunkAt(size_t chunk) const {
  const size_t of_file = facts_.file_chunks();
  std::byte* const image = arena_->image(slot_);
  return chunk < of_file
             ? image + chunk * ckpt::kChunkBytes
             : image + NotesAt(facts_.file_bytes) + (chunk - of_file) * ckpt::kChunkBytes;
}

Result<void> IncomingImage::TakeChunk(const Reader& read) {
  CHECK(has_begun_ && done_ < facts_.hashes.size(), "there is a chunk to take");
  const uint64_t bytes = facts_.BytesOf(done_);
  std::array<std::byte, kPieceBytes> piece;
  ckpt::ChunkCopier copier(ChunkAt(done_), bytes);
  for (uint64_t at = 0; at < bytes; at += piece.size()) {
    const size_t size = std::min<uint64_t>(piece.size(), bytes - at);
    RETURN_IF_ERROR(read(piece.data(), size));
    copier.Append(piece.data(), size);
  }
  if (copier.Finish().front() != facts_.hashes[done_]) {
    return Failure{FailureKind::kDamaged,
                   Concat("chunk ", done_, " of ", facts_.hashes.size(), " came damaged")};
  }
  ++done_;
  const std::lock_guard lock(mutex_);
  visible_ = done_;
  changed_.notify_all();
  return {};
}

Result<void> IncomingImage::Seal(const std::string& who) {
  CHECK(is_whole(), "every chunk is there");
  const auto notes = facts_.hashes.begin() + static_cast<int64_t>(facts_.file_chunks());
  arena_->Seal({.slot = slot_,
                .generation = order_.saved.generation,
                .step = order_.saved.step,
                .world_size = facts_.world_size,
                .file_bytes = facts_.file_bytes,
                .head_bytes = facts_.head_bytes,
                .notes_bytes = facts_.notes_bytes,
                .flags = facts_.flags,
                .branch = order_.saved.branch},
               {facts_.hashes.begin(), notes}, {notes, facts_.hashes.end()});
  if (!made_at_.empty() && ::rename(made_at_.c_str(), place_.path.c_str()) != 0) {
    return Failure{FailureKind::kSystem, Concat("cannot rename ", made_at_), errno};
  }
  made_at_.clear();
  from_ = who;
  const std::lock_guard lock(mutex_);
  state_ = State::kSealed;
  changed_.notify_all();
  return {};
}

void IncomingImage::Abandon() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kSealed) return;
  if (state_ == State::kFilling) arena_->GiveUp(slot_);
  if (!made_at_.empty()) ::unlink(made_at_.c_str());
  state_ = State::kAbandoned;
  changed_.notify_all();
}

bool IncomingImage::AwaitChunk(size_t chunk) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kChunkPatience, [&] {
    return visible_ > chunk || is_cancelled_ || state_ == State::kAbandoned;
  });
  return visible_ > chunk && state_ != State::kAbandoned;
}

wire::BulkImage IncomingImage::Offer() {
  wire::BulkImage offer;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kOfferPatience,
                      [&] { return state_ != State::kWaiting || is_cancelled_; });
    if (state_ == State::kWaiting && !is_cancelled_) {
      offer.answer.kind = wire::BulkAnswer::Kind::kLater;
      offer.answer.why = "it is on its way to here";
      return offer;
    }
    if (state_ == State::kAbandoned || is_cancelled_) {
      offer.answer.why = "it did not get here";
      return offer;
    }
  }
  offer.answer.kind = wire::BulkAnswer::Kind::kImage;
  offer.answer.facts = facts_;
  const std::byte* image = arena_->image(slot_);
  offer.file = {image, facts_.file_bytes};
  offer.notes = {image + NotesAt(facts_.file_bytes), facts_.notes_bytes};
  offer.await = [this](size_t chunk) { return AwaitChunk(chunk); };
  offer.keep = shared_from_this();
  return offer;
}

bool IncomingImage::is_cancelled() const {
  const std::lock_guard lock(mutex_);
  return is_cancelled_;
}

void IncomingImage::Cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  if (breaker_) breaker_();
  changed_.notify_all();
}

void IncomingImage::SetBreaker(std::function<void()> breaker) {
  const std::lock_guard lock(mutex_);
  breaker_ = std::move(breaker);
  if (is_cancelled_ && breaker_) breaker_();
}

bool IncomingImage::Sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return is_cancelled_; });
  return !is_cancelled_;
}

}  // namespace paceline::agent
