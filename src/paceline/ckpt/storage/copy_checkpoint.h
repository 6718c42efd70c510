#pragma once

// Copies a committed checkpoint, or some ranks' files of it, from one store to another.

#include <cstdint>
#include <set>
#include <string>

#include "paceline/base/result.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/model/checkpoint.h"

namespace paceline::ckpt {

struct Copied {
  uint64_t bytes = 0;        // transferred
  uint64_t bytes_there = 0;  // already there and intact
};

// The parts of a checkpoint to copy.
struct CopyWish {
  std::set<uint32_t> ranks;  // whose files; empty: all
  StoredPart part = StoredPart::kAll;
};

// Compares each chunk with its hash. Intact files in the target are kept. The manifest is written
// last, so a partial copy is no checkpoint. LATEST does not change. kDamaged: a file in `from`
// differs from what was saved. kBusy: one of the stores does not answer.
Result<Copied> CopyCheckpoint(Store* from, Store* to, const std::string& name,
                              const Manifest& manifest, const CopyWish& wish);

}  // namespace paceline::ckpt
