#include "paceline/client/device_save.h"

#include <algorithm>
#include <cstring>

#include "paceline/base/check.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::client {
namespace {

using ckpt::ChunkCount;
using ckpt::HashOf;
using ckpt::kChunkBytes;

std::vector<uint64_t> HashesOf(const std::byte* begin, uint64_t size) {
  std::vector<uint64_t> hashes;
  hashes.reserve(ChunkCount(size));
  for (uint64_t at = 0; at < size; at += kChunkBytes) {
    hashes.push_back(HashOf(begin + at, std::min<uint64_t>(kChunkBytes, size - at)));
  }
  return hashes;
}

}  // namespace

DeviceSave::DeviceSave(ckpt::Arena* arena, Device* device, uint32_t slot, const ckpt::Image& layout,
                       std::span<const DeviceSource> sources, const ckpt::SaveStep& what)
    : arena_(arena),
      device_(device),
      slot_(slot),
      layout_(layout),
      sources_(sources.begin(), sources.end()),
      what_(what),
      notes_(what.notes),
      image_(arena->image(slot)) {
  CHECK(sources_.size() == layout_.boxes.size(), "a source for each tensor");
  what_.notes = notes_;
}

DeviceSave::~DeviceSave() {
  if (!is_sealed_) arena_->GiveUp(slot_);
}

Result<void> DeviceSave::Begin(StreamHandle stream) {
  const bool has_early =
      std::any_of(sources_.begin(), sources_.end(),
                  [](const DeviceSource& source) { return source.place == SourcePlace::kDevice; });
  const auto begin = [&]() -> Result<void> {
    RETURN_IF_ERROR(device_->Enter());
    RETURN_IF_ERROR(device_->StartAfter(stream));
    if (!has_early) return {};
    RETURN_IF_ERROR(CopyBoxes(SourcePlace::kDevice));
    RETURN_IF_ERROR(device_->SetMark(CopyMark::kEarly));
    RETURN_IF_ERROR(device_->HoldBack(stream, CopyMark::kEarly));
    return {};
  };
  const Result<void> begun = begin();
  if (!begun.ok()) {
    Fail(begun.failure());
    return begun;
  }
  std::memcpy(image_, layout_.head.data(), layout_.head.size());
  if (layout_.second_at != 0) {
    std::memcpy(image_ + layout_.second_at, layout_.second_head.data(), layout_.second_head.size());
  }
  return CopyBoxes(SourcePlace::kHost);
}

Result<void> DeviceSave::CopyBoxes(SourcePlace place) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const ckpt::TensorBox& box = layout_.boxes[i];
    if (sources_[i].place != place || box.bytes == 0) continue;
    std::byte* const target = image_ + box.begin;
    if (place == SourcePlace::kHost) {
      std::memcpy(target, sources_[i].address, box.bytes);
    } else {
      RETURN_IF_ERROR(device_->Copy(target, sources_[i].address, box.bytes));
    }
  }
  return {};
}

Result<void> DeviceSave::Finish() {
  const Result<void> finished = FinishInOrder();
  if (!finished.ok()) Fail(finished.failure());
  return finished;
}

Result<void> DeviceSave::FinishInOrder() {
  RETURN_IF_ERROR(device_->Enter());
  RETURN_IF_ERROR(CopyBoxes(SourcePlace::kDeviceStepped));
  RETURN_IF_ERROR(device_->SetMark(CopyMark::kAll));
  Reach(Phase::kOrdered);
  RETURN_IF_ERROR(device_->Await(CopyMark::kAll));
  Reach(Phase::kCopied);

  std::byte* const notes = image_ + NotesAt(layout_.size);
  std::memcpy(notes, notes_.data(), notes_.size());
  ckpt::SealImage(arena_, slot_, layout_, what_, HashesOf(image_, layout_.size),
                  HashesOf(notes, notes_.size()));
  is_sealed_ = true;
  return {};
}

void DeviceSave::Reach(Phase phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  reached_.notify_all();
}

void DeviceSave::Fail(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  phase_ = Phase::kFailed;
  reached_.notify_all();
}

Result<void> DeviceSave::AwaitCopied() {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [&] { return phase_ >= Phase::kCopied; });
  if (phase_ == Phase::kFailed) return failure_;
  return {};
}

Result<void> DeviceSave::Fence(StreamHandle stream) {
  {
    std::unique_lock lock(mutex_);
    reached_.wait(lock, [&] { return phase_ != Phase::kBegun; });
    if (phase_ == Phase::kFailed) return failure_;
    if (phase_ == Phase::kCopied) return {};
  }
  return device_->HoldBack(stream, CopyMark::kAll);
}

}  // namespace paceline::client
