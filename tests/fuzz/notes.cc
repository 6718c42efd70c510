// The notes of a rank, as verify looks at them. They may come from anybody.

#include <cstdint>

#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/storage/notes_file.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace ckpt = paceline::ckpt;
  const std::string_view text = paceline::fuzz::AsText(data, size);
  const bool is_small = ckpt::CheckNotesSize(text).ok();
  const auto checked = ckpt::CheckNotes(text);
  paceline::fuzz::Demand(is_small || !checked.ok(), "what is too large is no notes");
  const bool is_newer = !checked.ok() && ckpt::IsNewer(checked.failure());
  const bool has_name = text.find("paceline.notes") != std::string_view::npos;
  paceline::fuzz::Demand(!is_newer || has_name || text.find('\\') != std::string_view::npos,
                         "a newer version names itself");
  return 0;
}
