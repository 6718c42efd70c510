#pragma once

// One save of tensors of which some lie on a device. The bytes go from the device straight into the
// slot, and are hashed there afterwards: the training neither copies nor hashes them.
//
// The training's thread constructs and begins it, a second thread finishes it. Between the two the
// training may go on, as long as nothing writes to what is being copied:
//
//   what may change at any time (buffers, loose tensors) is copied first, and the training's stream
//     is held back until then, on the device: microseconds, and no thread waits;
//   what only an optimizer changes (parameters, its own state) is copied behind that. Fence holds
//     the stream back from the next optimizer's step; or AwaitCopied waits at once.

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
  kDevice,         // written by whatever the training runs
  kDeviceStepped,  // written by optimizers' steps alone
};

// Where the bytes of a box are, in C order.
struct DeviceSource {
  const void* address = nullptr;
  SourcePlace place = SourcePlace::kHost;
};

class DeviceSave {
 public:
  // `slot` was taken by BeginImage for this layout; it is sealed or given up in any case, by the
  // destructor at the latest. `arena`, `device` and `layout` outlive this.
  DeviceSave(ckpt::Arena* arena, Device* device, uint32_t slot, const ckpt::Image& layout,
             std::span<const DeviceSource> sources, const ckpt::SaveStep& what);
  ~DeviceSave();
  DeviceSave(const DeviceSave&) = delete;
  DeviceSave& operator=(const DeviceSave&) = delete;

  // The training's thread. Copies what lies in this process's memory, and orders what may change at
  // any time, after all that `stream` was given so far.
  Result<void> Begin(StreamHandle stream);

  // The second thread, after Begin: orders the rest, waits for it, hashes the image and seals it.
  // Once; what it returned then is what AwaitCopied and Fence return when it failed.
  Result<void> Finish();

  // Any thread, while or after Finish runs: until no tensor is read any more.
  Result<void> AwaitCopied();
  // Likewise: what `stream` is given from now on runs when no tensor is read any more. Returns as
  // soon as the copies are ordered, which takes a microsecond or two for each tensor.
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
