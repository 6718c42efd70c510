#pragma once

// Images that a node reports from its disk and not from an arena.

#include "paceline/model/checkpoint.h"

namespace paceline::core {

// True if the reporting node has the image on its disk, where other hosts cannot fetch it. The
// place's name shows it, as defined in agent/memory/local_tier.h.
inline bool IsOnDisk(const CheckpointReport& report, const MemoryImage& image) {
  return image.place == report.place + ".disk";
}

}  // namespace paceline::core
