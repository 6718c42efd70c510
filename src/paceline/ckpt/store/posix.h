#pragma once

// Checkpoints below a directory of a file system. Everything becomes visible by a rename or a link
// after its bytes are durable.

#include <memory>
#include <string>

#include "paceline/ckpt/disk/disk.h"
#include "paceline/ckpt/store/store.h"

namespace paceline::ckpt {

// `directory` is there, or is an error of the first call that needs it. The disk outlives the
// store.
std::unique_ptr<Store> MakePosixStore(std::string directory, Disk* disk = SystemDisk());

}  // namespace paceline::ckpt
