#pragma once

// A committed checkpoint, or some ranks' files of it, from one store into another.

#include <cstdint>
#include <set>
#include <string>

#include "paceline/base/result.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/model/checkpoint.h"

namespace paceline::ckpt {

struct Copied {
  uint64_t bytes = 0;        // that were sent
  uint64_t bytes_there = 0;  // that were there already, and hold
};

// What of a checkpoint is copied.
struct CopyWish {
  std::set<uint32_t> ranks;  // whose files; empty: all
  StoredPart part = StoredPart::kAll;
};

// Each chunk is compared with its hash on the way; a file that is there and holds is left as it is.
// The manifest comes last, so nobody takes a half for a checkpoint. LATEST stays as it is.
// kDamaged: what is in `from` is not what was saved. kBusy: one of the two is away.
Result<Copied> CopyCheckpoint(Store* from, Store* to, const std::string& name,
                              const Manifest& manifest, const CopyWish& wish);

}  // namespace paceline::ckpt
