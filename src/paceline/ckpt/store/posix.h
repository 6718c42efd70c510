#pragma once

// Checkpoints below a directory of a file system. Files become visible by a rename or a link after
// their bytes are durable.

#include <memory>
#include <string>

#include "paceline/ckpt/disk/disk.h"
#include "paceline/ckpt/store/store.h"

namespace paceline::ckpt {

// If `directory` does not exist, the first call that needs it fails. The disk must outlive the
// store.
std::unique_ptr<Store> MakePosixStore(std::string directory, Disk* disk = SystemDisk());

}  // namespace paceline::ckpt
