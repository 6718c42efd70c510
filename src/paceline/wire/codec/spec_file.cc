#include "paceline/wire/codec/spec_file.h"

#include <vector>

#include "google/protobuf/util/json_util.h"
#include "paceline/base/status_macros.h"
#include "paceline/model/job_file_limit.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/security/secret_file.h"

namespace paceline::wire {
namespace {

constexpr std::string_view kSchema = "paceline.spec/1";
constexpr size_t kSpecBytesMax = kJobFileBytesMax;  // it includes the script's arguments

absl::Status NotUtf8(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, std::string(what) + " is not UTF-8");
}

absl::Status CheckTexts(const LaunchSpec& launch) {
  for (const std::string* text :
       {&launch.target, &launch.cwd, &launch.python, &launch.role, &launch.run_id, &launch.log_dir,
        &launch.local_addr, &launch.numa_binding, &launch.history_place,
        &launch.console.line_prefix_template}) {
    if (!IsUtf8(*text)) return NotUtf8("\"" + CleanText(*text) + "\"");
  }
  for (const std::vector<std::string>* texts :
       {&launch.args, &launch.preload, &launch.relays, &launch.notify_command, &launch.checks,
        &launch.console.duplicate_stdout_filters, &launch.console.duplicate_stderr_filters}) {
    for (const std::string& text : *texts) {
      if (!IsUtf8(text)) return NotUtf8("\"" + CleanText(text) + "\"");
    }
  }
  for (const auto& [name, value] : launch.env) {
    if (!IsUtf8(name) || !IsUtf8(value)) return NotUtf8("variable " + CleanText(name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FormatSpec(const SpecFile& spec) {
  RETURN_IF_ERROR(CheckTexts(spec.launch));
  pb::SpecFile message;
  message.set_schema(std::string(kSchema));
  ToProto(spec.job, message.mutable_job());
  ToProto(spec.launch, message.mutable_launch());
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) return absl::InternalError("spec.json cannot be printed");
  if (text.size() > kSpecBytesMax) return absl::InvalidArgumentError("spec.json is too large");
  return text;
}

absl::StatusOr<SpecFile> ParseSpec(std::string_view text) {
  if (text.size() > kSpecBytesMax) return absl::InvalidArgumentError("spec.json is too large");
  pb::SpecFile message;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &message);
  if (!status.ok()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "not a spec: " + CleanText(std::string(status.message())));
  }
  if (message.schema() != kSchema) {
    return MakeStatus(
        absl::StatusCode::kInvalidArgument,
        "schema is \"" + CleanText(message.schema()) + "\", not \"" + std::string(kSchema) + "\"");
  }
  SpecFile spec;
  RETURN_IF_ERROR(FromProto(message.job(), &spec.job));
  RETURN_IF_ERROR(FromProto(message.launch(), &spec.launch));
  return spec;
}

absl::Status WriteSpecFile(const SpecFile& spec, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, FormatSpec(spec));
  return WriteSecretFile(path, text);
}

absl::StatusOr<SpecFile> ReadSpecFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(path, kSpecBytesMax));
  absl::StatusOr<SpecFile> spec = ParseSpec(text);
  if (!spec.ok()) return Annotate(spec.status(), path);
  return spec;
}

}  // namespace paceline::wire
