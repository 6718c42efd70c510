#include "paceline/cli/console/error_file.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "paceline/agent/agent_files.h"
#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFailed = 1;  // of a rank that never started

}  // namespace

std::string FormatErrorFile(const RootFailure& root, const std::string& recorded,
                            int64_t unix_seconds) {
  const int code = root.rank_exit_code.value_or(kFailed);
  Json json = ParseOrderedJson(recorded);
  // If the message is plain text, torch's format has no field for the code.
  if (json.is_object() && json.contains("message")) {
    if (json["message"].is_object()) json["message"]["errorCode"] = code;
    return PrintJson(json);
  }
  json = Json::object();
  json["message"] = {
      {"message", root.sentence},
      {"errorCode", code},
      {"extraInfo",
       {{"py_callstack", root.traceback}, {"timestamp", std::to_string(unix_seconds)}}}};
  return PrintJson(json);
}

void WriteErrorFile(const Environment& environment, const RootFailure& root,
                    const std::string& run_dir) {
  const std::string path = LookupOr(environment, "TORCHELASTIC_ERROR_FILE", "");
  if (path.empty()) return;
  const agent::AgentFiles files{run_dir, root.node};
  const std::string recorded =
      ReadText(files.TorchErrorFile(root.generation, root.rank), agent::kErrorRecordBytesMax);
  std::string text = FormatErrorFile(root, recorded, ::time(nullptr));
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  while (file.is_open() && !text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written <= 0) return;
    text.erase(0, static_cast<size_t>(written));
  }
}

}  // namespace paceline::cli
