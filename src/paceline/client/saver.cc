#include "paceline/client/saver.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/base/result.h"
#include "paceline/client/quiet_thread.h"

namespace paceline::client {
namespace {

// A record lock: it ends with this process, and forked children do not inherit it.
Result<Fd> Lock(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) {
    return Failure{FailureKind::kSystem, "cannot open " + path + ": " + std::strerror(errno),
                   errno};
  }
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_SETLK, &whole) == 0) return fd;
  if (errno != EACCES && errno != EAGAIN) {
    return Failure{FailureKind::kSystem, "cannot lock " + path + ": " + std::strerror(errno),
                   errno};
  }
  ::fcntl(fd.get(), F_GETLK, &whole);
  return Failure{FailureKind::kBusy,
                 "process " + std::to_string(whole.l_pid) + " saves there, and it is not this one"};
}

}  // namespace

Result<std::unique_ptr<Saver>> Saver::Open(const std::string& path,
                                           const ckpt::ArenaIdentity& identity,
                                           const ckpt::ArenaSize& size) {
  ASSIGN_OR_RETURN(Fd lock, Lock(path + ".lock"));
  ASSIGN_OR_RETURN(auto arena, ckpt::Arena::OpenOrMake(path, identity, size));
  arena->ForgetUnfinished();
  return std::unique_ptr<Saver>(new Saver(std::move(arena), std::move(lock), path));
}

Saver::Saver(std::unique_ptr<ckpt::Arena> arena, Fd lock, std::string path)
    : arena_(std::move(arena)),
      path_(std::move(path)),
      owner_(::getpid()),
      is_new_(reserved_slots() == 0),
      lock_(std::move(lock)) {}

Result<bool> Saver::Save(const ckpt::Image& layout, std::span<const void* const> sources,
                         ckpt::SaveStep what) {
  ASSIGN_OR_RETURN(const bool is_saved, TakeSlot(&what, [&] {
                     return ckpt::Save(arena_.get(), layout, sources, what);
                   }));
  if (is_saved) held_.Saved(what.saved);
  return is_saved;
}

Result<std::optional<uint32_t>> Saver::Begin(const ckpt::Image& layout, ckpt::SaveStep what) {
  uint32_t slot = 0;
  ASSIGN_OR_RETURN(const bool is_taken, TakeSlot(&what, [&]() -> Result<void> {
                     ASSIGN_OR_RETURN(slot, ckpt::BeginImage(arena_.get(), layout, what));
                     return {};
                   }));
  return is_taken ? std::optional<uint32_t>(slot) : std::nullopt;
}

Result<bool> Saver::TakeSlot(ckpt::SaveStep* what, const std::function<Result<void>()>& take) {
  what->keep = held_.Keep(arena_->hold());
  for (;;) {
    const Result<void> taken = take();
    if (taken.ok()) {
      has_saved_ = true;
      return true;
    }
    if (taken.failure().kind != FailureKind::kBusy) return taken.failure();
    ASSIGN_OR_RETURN(const bool is_another, ReserveAnother());
    if (!is_another) return false;
  }
}

Result<void> Saver::Reserve(const std::function<Result<void>(uint32_t slot)>& then) {
  const QuietThread quiet;
  for (uint32_t i = 0; i < arena_->slot_count(); ++i) {
    for (bool is_whole = false; !is_whole;) {
      if (is_stopped_) {
        GiveBackPart(i);
        return {};
      }
      ASSIGN_OR_RETURN(is_whole, ReservePiece(i));
    }
    if (then != nullptr) RETURN_IF_ERROR(then(i));
  }
  return {};
}

Result<bool> Saver::ReservePiece(uint32_t slot) {
  std::unique_lock lock(mutex_);
  has_taken_over_.wait(lock, [&] { return !is_awaited_; });
  return arena_->ReservePiece(slot, &reserved_to_[slot]);
}

void Saver::GiveBackPart(uint32_t slot) {
  const std::lock_guard lock(mutex_);
  if (arena_->IsReserved(slot)) return;
  arena_->GiveBack(slot);
  reserved_to_[slot] = 0;
}

bool Saver::GiveBackUnused(bool removes) {
  // A forked child shares the memory with its parent.
  if (!is_new_ || has_saved_ || owner_ != ::getpid() || !arena_->Sealed().empty()) return false;
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < arena_->slot_count(); ++i) arena_->GiveBack(i);
  reserved_to_ = {};
  if (removes) ::unlink(path_.c_str());
  return true;
}

uint32_t Saver::reserved_slots() const {
  uint32_t count = 0;
  for (uint32_t i = 0; i < arena_->slot_count(); ++i) count += arena_->IsReserved(i) ? 1 : 0;
  return count;
}

Result<bool> Saver::ReserveAnother() {
  const uint32_t before = reserved_slots();
  if (before == arena_->slot_count()) return false;
  is_awaited_ = true;
  const auto reserve = [&]() -> Result<bool> {
    const std::lock_guard lock(mutex_);
    for (uint32_t i = 0; reserved_slots() == before; ++i) {
      if (arena_->IsReserved(i)) continue;
      for (bool is_whole = false; !is_whole;) {
        const Result<bool> reserved = arena_->ReservePiece(i, &reserved_to_[i]);
        if (!reserved.ok() && before < 2) return reserved.failure();
        if (!reserved.ok()) return false;
        is_whole = *reserved;
      }
    }
    return true;
  };
  const Result<bool> is_another = reserve();
  is_awaited_ = false;
  // Notified under the lock: the thread may have just found is_awaited_ set, and not wait yet.
  const std::lock_guard lock(mutex_);
  has_taken_over_.notify_all();
  return is_another;
}

}  // namespace paceline::client
