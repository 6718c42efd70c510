#pragma once

// The notes of a rank, as far as programs without Python look at them: docs/formats/notes.md.

#include <cstdint>
#include <string_view>

#include "paceline/base/result.h"

namespace paceline::ckpt {

inline constexpr uint64_t kNotesBytesMax = uint64_t{256} << 20;

// kTooLarge: notes of that many values or of that depth take more memory than a rank should give
// for them. A save is refused by it, so no restore is.
Result<void> CheckNotesSize(std::string_view text);
// As CheckNotesSize. kInvalid: it is no such text. IsNewer (ckpt/storage/manifest.h): a newer
// version wrote it.
Result<void> CheckNotes(std::string_view text);

}  // namespace paceline::ckpt
