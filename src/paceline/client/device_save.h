#pragma once

// One save of tensors, some of them on a device. The device copies bytes directly into the slot,
// where they are hashed. The training neither copies nor hashes them.
//
// The training's thread constructs and begins the save; a second thread finishes it. In between,
// training continues, but must not write to tensors that are being copied:
//
//   Tensors that may change at any time (buffers, loose tensors) are copied first. The device
//     holds the training's stream back until then: microseconds, and no thread waits.
//   Tensors that only an optimizer changes (parameters, its state) are copied after that. Fence
//     holds the stream back before the next optimizer step. AwaitCopied makes the caller wait.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/save.h"
#include "paceline/client/device.h"

namespace paceline::client {

enum class SourcePlace : uint8_t {
  kHost,
  kDevice,         // any kernel of the training may write to it
  kDeviceStepped,  // only optimizer steps write to it
};

// Where a box's bytes are, in C order.
struct DeviceSource {
  const void* address = nullptr;
  SourcePlace place = SourcePlace::kHost;
};

class DeviceSave {
 public:
  // BeginImage has taken `slot` for this layout. The slot is sealed or given up in any case, at the
  // latest by the destructor. `arena`, `device` and `layout` must outlive this object.
  DeviceSave(ckpt::Arena* arena, Device* device, uint32_t slot, const ckpt::Image& layout,
             std::span<const DeviceSource> sources, const ckpt::SaveStep& what);
  ~DeviceSave();
  DeviceSave(const DeviceSave&) = delete;
  DeviceSave& operator=(const DeviceSave&) = delete;

  // Called by the training's thread. Copies tensors in host memory. Orders copies of tensors that
  // may change at any time, behind the current work of `stream`.
  Result<void> Begin(StreamHandle stream);

  // Called once by the second thread, after Begin. Orders the other copies, waits for them, hashes
  // the image and seals it. If it fails, AwaitCopied and Fence return the same failure.
  Result<void> Finish();

  // Waits until all tensors are copied. Any thread, during or after Finish.
  Result<void> AwaitCopied();
  // Later work of `stream` runs after all tensors are copied. Returns when the copies are ordered:
  // a microsecond or two for each tensor. Any thread, as AwaitCopied.
  Result<void> Fence(StreamHandle stream);

  SavedStep saved() const { return what_.saved; }

 private:
  enum class Phase { kBegun, kOrdered, kCopied, kFailed };

  Result<void> FinishInOrder();
  Result<void> CopyBoxes(SourcePlace place);
  void Reach(Phase phase);
  void Fail(const Failure& failure);

  ckpt::Arena* const arena_;
  Device* const device_;
  const uint32_t slot_;
  const ckpt::Image& layout_;
  const std::vector<DeviceSource> sources_;
  ckpt::SaveStep what_;
  const std::string notes_;
  std::byte* const image_;
  bool is_sealed_ = false;

  std::mutex mutex_;
  std::condition_variable reached_;
  Phase phase_ = Phase::kBegun;  // guarded by mutex_
  Failure failure_;              // guarded by mutex_, with kFailed
};

}  // namespace paceline::client
