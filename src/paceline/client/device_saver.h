#pragma once

// A training process's saves of tensors that lie on its device; see client/device_save.h.

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

// One save at a time: Begin, then Finish in another thread, which must return before the next
// Begin.
class DeviceSaver {
 public:
  // Both must outlive this object.
  DeviceSaver(Saver* saver, Device* device) : saver_(saver), device_(device) {}
  ~DeviceSaver();
  DeviceSaver(const DeviceSaver&) = delete;
  DeviceSaver& operator=(const DeviceSaver&) = delete;

  // As Saver::Reserve, and then pins each slot, at some tenths of a second a GiB. A save to an
  // unpinned slot delays the second thread only.
  Result<void> Reserve();

  // Takes a slot and begins to copy, behind the current work of `stream`. `layout` must stay valid
  // until Finish. False: no slot is free. Fails as Saver::Save, and if the device fails.
  Result<bool> Begin(const ckpt::Image& layout, std::span<const DeviceSource> sources,
                     const ckpt::SaveStep& what, StreamHandle stream);
  // Waits until the image is complete. After a failure there is no image, and nothing else changed.
  Result<void> Finish();

  // As in DeviceSave. Without a save in progress they do nothing.
  Result<void> AwaitCopied();
  Result<void> Fence(StreamHandle stream);

 private:
  Saver* const saver_;
  Device* const device_;
  const pid_t owner_ = ::getpid();
  std::set<uint32_t> pinned_;         // slots; used by the reserving thread
  std::unique_ptr<DeviceSave> save_;  // the last one
};

}  // namespace paceline::client
