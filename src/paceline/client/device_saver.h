#pragma once

// A training process's saves of tensors that lie on its device; see ckpt/device_save.h.

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/client/device.h"
#include "paceline/client/device_save.h"
#include "paceline/client/saver.h"

namespace paceline::client {

// One save at a time: Begin, then Finish in another thread, which ends before the next Begin.
class DeviceSaver {
 public:
  // Both outlive this.
  DeviceSaver(Saver* saver, Device* device) : saver_(saver), device_(device) {}
  ~DeviceSaver();
  DeviceSaver(const DeviceSaver&) = delete;
  DeviceSaver& operator=(const DeviceSaver&) = delete;

  // As Saver::Reserve, and pins each slot behind that, some tenths of a second a GiB. Saves to a
  // slot that is not pinned yet hold the second thread up, and nobody else.
  Result<void> Reserve();

  // Takes a slot and begins to copy, after all that `stream` was given so far. `layout` stays until
  // Finish. False: no slot may be taken now. Fails as Saver::Save, and when the device does.
  Result<bool> Begin(const ckpt::Image& layout, std::span<const DeviceSource> sources,
                     const ckpt::SaveStep& what, StreamHandle stream);
  // Until the image is whole. When it fails there is none, and nothing else changed.
  Result<void> Finish();

  // As those of DeviceSave; without a save that is under way they do nothing.
  Result<void> AwaitCopied();
  Result<void> Fence(StreamHandle stream);

 private:
  Saver* const saver_;
  Device* const device_;
  const pid_t owner_ = ::getpid();
  std::set<uint32_t> pinned_;         // slots; of the thread that reserves
  std::unique_ptr<DeviceSave> save_;  // the last one that began
};

}  // namespace paceline::client
