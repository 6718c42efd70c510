#include "paceline/client/saver.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace paceline::client {
namespace {

// A record lock: it ends with this process and is not inherited by what the process forks.
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
  return std::unique_ptr<Saver>(new Saver(std::move(arena), std::move(lock)));
}

Result<bool> Saver::Save(const ckpt::Image& layout, std::span<const void* const> sources,
                         ckpt::SaveStep what) {
  if (const auto hold = arena_->hold(); hold != hold_) {
    hold_ = hold;
    held_.reset();
  }
  what.keep = held_;
  const Result<void> saved = ckpt::Save(arena_.get(), layout, sources, what);
  if (!saved.ok() && saved.failure().kind == FailureKind::kBusy) return false;
  if (!saved.ok()) return saved.failure();
  if (hold_.has_value() && !held_.has_value() && what.step >= *hold_) held_ = what.step;
  return true;
}

}  // namespace paceline::client
