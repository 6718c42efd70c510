#pragma once

// The first half of a commit: what the ranks' agents left in storage, put together.

#include "paceline/base/result.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/store.h"

namespace paceline::ckpt {

// The parts of all ranks as one manifest. What they say of their tensors has to tile them: no file
// is opened, because 512 of them, far away, take seconds. kNotFound: a part or a file of one is not
// there; kInvalid: a part is of another save, or the tensors do not tile.
Result<Manifest> Gather(Store* store, const CommitPlace& place);

}  // namespace paceline::ckpt
