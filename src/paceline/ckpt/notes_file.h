#pragma once

// The notes of a rank, as far as programs without Python look at them: docs/formats/notes.md.

#include <cstdint>
#include <string_view>

#include "paceline/base/result.h"

namespace paceline::ckpt {

inline constexpr uint64_t kNotesBytesMax = uint64_t{1} << 30;

// kInvalid: it is no such text. IsNewer (ckpt/manifest.h): a newer version wrote it.
Result<void> CheckNotes(std::string_view text);

}  // namespace paceline::ckpt
