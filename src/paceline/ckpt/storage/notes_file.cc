#include "paceline/ckpt/storage/notes_file.h"

#include <string>

#include "paceline/base/json.h"
#include "paceline/base/json_limit.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/storage/manifest.h"

namespace paceline::ckpt {

namespace {

// A value takes some 70 bytes in memory, in Python as well. Python's parser goes no deeper.
constexpr JsonLimit kLimit{.depth = 1'000, .containers = 4'000'000, .values = 32'000'000};

}  // namespace

Result<void> CheckNotesSize(std::string_view text) {
  if (text.size() <= kNotesBytesMax && kLimit.Holds(ShapeOfJson(text, kLimit.depth))) return {};
  return Failure{
      FailureKind::kTooLarge,
      Concat("the notes have more than ", kNotesBytesMax >> 20, " MiB, ", kLimit.containers,
             " lists and dicts, ", kLimit.values, " values or ", kLimit.depth, " levels")};
}

Result<void> CheckNotes(std::string_view text) {
  RETURN_IF_ERROR(CheckNotesSize(text));
  const nlohmann::json parsed = ParseJson(text);
  if (!parsed.is_object()) return Failure{FailureKind::kInvalid, "the notes are no JSON object"};
  const auto schema = parsed.find("schema");
  const bool has_schema = schema != parsed.end() && schema->is_string();
  return CheckSchema(has_schema ? schema->get_ref<const std::string&>() : "", "paceline.notes/1",
                     "the notes");
}

}  // namespace paceline::ckpt
