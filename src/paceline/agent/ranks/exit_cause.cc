#include "paceline/agent/ranks/exit_cause.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <optional>
#include <utility>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/core/budget.h"

namespace paceline::agent {
namespace {

using nlohmann::json;

constexpr size_t kHeadlineBytesMax = 300;
constexpr size_t kFingerprintBytesMax = 160;

std::string FirstLine(std::string_view text) {
  return std::string(Trimmed(text.substr(0, text.find('\n'))));
}

std::string Cut(std::string text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  // Do not cut within a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return Concat(text.substr(0, end), "…");
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::optional<json> RecordOf(std::string_view text, pid_t pid) {
  if (text.empty()) return std::nullopt;
  json record = ParseJson(text);
  if (!record.is_object() || JsonText(record, "schema") != "paceline.rank_error/1" ||
      (pid != 0 && JsonInt<int64_t>(record, "pid") != pid)) {
    return std::nullopt;
  }
  return record;
}

// Numbers such as addresses, pids and steps differ between runs of one failure.
std::string WithoutNumbers(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      result.push_back(c);
    } else if (result.empty() || result.back() != '#') {
      result.push_back('#');
    }
  }
  return result;
}

std::string LastLine(std::string_view text) {
  std::string_view last;
  for (std::string_view line : SplitParts(text, "\n")) {
    line = Trimmed(line);
    if (!line.empty()) last = line;
  }
  return std::string(last);
}

void ExplainByRecord(const json& record, ExitCause* cause) {
  const std::string type = JsonText(record, "type");
  const std::string file = JsonText(record, "file");
  const std::string place =
      file.empty() ? "" : Concat(BaseName(file), ":", JsonInt<int64_t>(record, "line"));
  const std::string message = FirstLine(JsonText(record, "message"));
  cause->is_final = JsonBool(record, "final", false);
  cause->is_repeatable = JsonBool(record, "repeatable", false);
  cause->fingerprint = Cut(place.empty() ? type : Concat(type, "@", place), kFingerprintBytesMax);
  cause->headline = Cut(message.empty() ? type : Concat(type, ": ", message), kHeadlineBytesMax);
  if (!place.empty()) Append(&cause->headline, " (", place, ")");
  if (type == "EOFError" && message == "EOF when reading a line") {
    cause->headline += "; ranks have no terminal, and one rank alone reads what is piped in";
  }
}

void ExplainSignal(const ExitEvidence& evidence, ExitCause* cause) {
  const std::string name = SignalName(cause->code);
  cause->fingerprint = name;
  if (cause->code == SIGKILL &&
      (evidence.cgroup_killed ||
       evidence.kernel_line.find("Killed process") != std::string::npos)) {
    cause->cgroup_oom = true;
    cause->fingerprint = "out of memory";
    cause->headline = "killed by the kernel: its memory cgroup is out of memory";
  } else {
    cause->headline = Concat("killed by ", name);
  }
  if (!evidence.kernel_line.empty()) {
    Append(&cause->headline, " (kernel: ", evidence.kernel_line, ")");
  }
  cause->headline = Cut(std::move(cause->headline), kHeadlineBytesMax);
}

void ExplainCode(const ExitEvidence& evidence, ExitCause* cause) {
  const std::string last = LastLine(evidence.stderr_tail);
  cause->fingerprint = Concat("exit ", cause->code);
  cause->headline = Concat(core::kExitedText, cause->code);
  if (last.empty()) return;
  Append(&cause->fingerprint, ": ", WithoutNumbers(last));
  Append(&cause->headline, core::kLastLineText, last);
  cause->fingerprint = Cut(std::move(cause->fingerprint), kFingerprintBytesMax);
  cause->headline = Cut(std::move(cause->headline), kHeadlineBytesMax);
}

}  // namespace

std::string SignalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? Concat("signal ", signal) : Concat("SIG", name);
}

std::string TracebackOf(std::string_view error_record, pid_t pid) {
  const std::optional<json> record = RecordOf(error_record, pid);
  return record.has_value() ? JsonText(*record, "traceback") : std::string();
}

std::string ExceptionOf(std::string_view error_record, pid_t pid) {
  const std::optional<json> record = RecordOf(error_record, pid);
  if (!record.has_value()) return "";
  return Concat(JsonText(*record, "type"), ": ", JsonText(*record, "message"));
}

std::optional<ExitCause> CauseByRecord(std::string_view error_record, pid_t pid) {
  const std::optional<json> record = RecordOf(error_record, pid);
  if (!record.has_value()) return std::nullopt;
  ExitCause cause;
  ExplainByRecord(*record, &cause);
  return cause;
}

ExitCause JudgeExit(const ExitEvidence& evidence) {
  ExitCause cause;
  cause.port_taken = evidence.port_taken;
  if (!evidence.wait_status.has_value()) {
    cause.fingerprint = "unknown";
    cause.headline = "ended; its exit status is not known, because its starter had ended";
  } else if (WIFSIGNALED(*evidence.wait_status)) {
    cause.kind = ExitCause::Kind::kSignaled;
    cause.code = WTERMSIG(*evidence.wait_status);
    ExplainSignal(evidence, &cause);
    return cause;
  } else {
    cause.kind = ExitCause::Kind::kExited;
    cause.code = WEXITSTATUS(*evidence.wait_status);
    if (cause.code == 0) return cause;
    ExplainCode(evidence, &cause);
  }
  if (cause.port_taken) {
    cause.fingerprint = "store port taken";
    cause.headline = "the store's port was taken by another program";
    return cause;
  }
  const std::optional<json> record = RecordOf(evidence.error_record, evidence.pid);
  if (record.has_value()) ExplainByRecord(*record, &cause);
  return cause;
}

}  // namespace paceline::agent
