#pragma once

// A training process's side of its arena: the only writer of it.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "paceline/base/fd.h"
#include "paceline/base/result.h"
#include "paceline/ckpt/arena.h"
#include "paceline/ckpt/save.h"

namespace paceline::client {

class Saver {
 public:
  // Makes or finds the arena and takes the place of its writer. kBusy: another process that lives
  // writes there. Otherwise as Arena::OpenOrMake.
  static Result<std::unique_ptr<Saver>> Open(const std::string& path,
                                             const ckpt::ArenaIdentity& identity,
                                             const ckpt::ArenaSize& size);

  // See Arena::Populate; any thread.
  void Populate() { arena_->Populate(); }

  uint64_t image_bytes_max() const { return arena_->image_bytes_max(); }

  // See ckpt::Save; `what.keep` is set here, by what the agent asked for. False: no slot may be
  // taken now, and this step is left out.
  Result<bool> Save(const ckpt::Image& layout, std::span<const void* const> sources,
                    ckpt::SaveStep what);

 private:
  Saver(std::unique_ptr<ckpt::Arena> arena, Fd lock)
      : arena_(std::move(arena)), lock_(std::move(lock)) {}

  const std::unique_ptr<ckpt::Arena> arena_;
  const Fd lock_;
  std::optional<int64_t> hold_;  // the agent's word when it was last looked at
  std::optional<int64_t> held_;  // the step that stays because of it
};

}  // namespace paceline::client
