#pragma once

// The first half of a commit: combines the parts that the ranks' agents left in storage.

#include "paceline/base/result.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/store.h"

namespace paceline::ckpt {

// Combines all ranks' parts into one manifest. Their descriptions of tensors must tile them. No
// file is opened: opening 512 remote files takes seconds. kNotFound: a part, or a file of one, is
// missing. kInvalid: a part is of another save, or the tensors do not tile.
Result<Manifest> Gather(Store* store, const CommitPlace& place);

}  // namespace paceline::ckpt
