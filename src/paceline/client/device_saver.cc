#include "paceline/client/device_saver.h"

#include <unistd.h>

#include <optional>

#include "paceline/base/check.h"

namespace paceline::client {

DeviceSaver::~DeviceSaver() {
  if (::getpid() != owner_) {
    // In a forked process: the slot that is being filled belongs to the parent.
    (void)save_.release();
    return;
  }
  for (const uint32_t slot : pinned_) device_->Unpin(saver_->arena()->image(slot));
}

Result<void> DeviceSaver::Reserve() {
  RETURN_IF_ERROR(device_->Enter());
  return saver_->Reserve([this](uint32_t slot) -> Result<void> {
    if (pinned_.contains(slot)) return {};
    ckpt::Arena& arena = *saver_->arena();
    RETURN_IF_ERROR(device_->Pin(arena.image(slot), arena.image_bytes_max()));
    pinned_.insert(slot);
    return {};
  });
}

Result<bool> DeviceSaver::Begin(const ckpt::Image& layout, std::span<const DeviceSource> sources,
                                const ckpt::SaveStep& what, StreamHandle stream) {
  save_ = nullptr;
  ASSIGN_OR_RETURN(const std::optional<uint32_t> slot, saver_->Begin(layout, what));
  if (!slot.has_value()) return false;
  save_ = std::make_unique<DeviceSave>(saver_->arena(), device_, *slot, layout, sources, what);
  const Result<void> begun = save_->Begin(stream);
  if (begun.ok()) return true;
  save_ = nullptr;
  return begun.failure();
}

Result<void> DeviceSaver::Finish() {
  CHECK(save_ != nullptr, "a save was begun");
  RETURN_IF_ERROR(save_->Finish());
  saver_->Saved(save_->saved());
  return {};
}

Result<void> DeviceSaver::AwaitCopied() {
  return save_ == nullptr ? Result<void>() : save_->AwaitCopied();
}

Result<void> DeviceSaver::Fence(StreamHandle stream) {
  return save_ == nullptr ? Result<void>() : save_->Fence(stream);
}

}  // namespace paceline::client
