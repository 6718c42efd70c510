#include "paceline/ckpt/notes_file.h"

#include <string>

#include "paceline/base/json.h"
#include "paceline/base/status_macros.h"
#include "paceline/ckpt/manifest.h"

namespace paceline::ckpt {

Result<void> CheckNotes(std::string_view text) {
  const nlohmann::json parsed = ParseJson(text);
  if (!parsed.is_object()) return Failure{FailureKind::kInvalid, "the notes are no JSON object"};
  const auto schema = parsed.find("schema");
  const bool has_schema = schema != parsed.end() && schema->is_string();
  return CheckSchema(has_schema ? schema->get_ref<const std::string&>() : "", "paceline.notes/1",
                     "the notes");
}

}  // namespace paceline::ckpt
