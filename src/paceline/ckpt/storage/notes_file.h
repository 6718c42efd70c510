#pragma once

// Checks a rank's notes without Python: docs/formats/notes.md.

#include <cstdint>
#include <string_view>

#include "paceline/base/result.h"

namespace paceline::ckpt {

inline constexpr uint64_t kNotesBytesMax = uint64_t{256} << 20;

// kTooLarge: the values are too many or nested too deep, so a rank would need too much memory for
// them. Saves are checked, so that no restore fails for this.
Result<void> CheckNotesSize(std::string_view text);
// As CheckNotesSize. kInvalid: the text is malformed. IsNewer (ckpt/storage/manifest.h): a newer
// version wrote it.
Result<void> CheckNotes(std::string_view text);

}  // namespace paceline::ckpt
