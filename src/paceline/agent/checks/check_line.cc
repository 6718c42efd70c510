#include "paceline/agent/checks/check_line.h"

#include <sys/wait.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/base/utf8.h"

namespace paceline::agent {
namespace {

std::string Short(std::string_view text) {
  std::string clean = CleanText(text);
  if (clean.size() <= kCheckReasonMax) return clean;
  size_t end = kCheckReasonMax;
  while (end > 0 && (static_cast<unsigned char>(clean[end]) & 0xC0) == 0x80) --end;
  return clean.substr(0, end) + "…";
}

std::optional<nlohmann::json> Verdict(std::string_view line) {
  nlohmann::json said = ParseJson(line);
  const bool is_verdict = said.is_object() && said.contains("ok") && said["ok"].is_boolean();
  return is_verdict ? std::optional(std::move(said)) : std::nullopt;
}

std::string_view LastLine(std::string_view output) {
  const std::string_view text = Trimmed(output);
  const size_t begin = text.rfind('\n');
  return begin == std::string_view::npos ? text : text.substr(begin + 1);
}

// "it exited with 3: <its last line>"
std::string EndText(int wait_status, std::string_view output) {
  const std::string end = WIFSIGNALED(wait_status)
                              ? Concat("it was ended by signal ", WTERMSIG(wait_status))
                              : Concat("it exited with ", WEXITSTATUS(wait_status));
  const std::string_view last = LastLine(output);
  return last.empty() ? end : Concat(end, ": ", last);
}

}  // namespace

CheckLine ReadCheck(int wait_status, std::string_view output) {
  std::optional<nlohmann::json> said;
  for (std::string_view rest = output; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (std::optional<nlohmann::json> verdict = Verdict(rest.substr(0, end))) {
      said = std::move(verdict);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const bool is_done = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
  CheckLine line;
  if (said.has_value()) {
    line.ok = is_done && (*said)["ok"].get<bool>();
    line.reason = Short(JsonText(*said, "reason"));
    const auto numbers = said->find("numbers");
    if (numbers != said->end() && numbers->is_object()) line.numbers = *numbers;
    if (line.ok || !line.reason.empty()) return line;
    line.reason =
        is_done ? "it says \"ok\": false, and no reason" : Short(EndText(wait_status, ""));
    return line;
  }
  if (!is_done) {
    line.reason = Short(EndText(wait_status, output));
  } else {
    const std::string_view last = LastLine(output);
    line.reason = Short(Concat("it printed no JSON line with \"ok\"",
                               last.empty() ? std::string() : Concat(", but: ", last)));
  }
  return line;
}

}  // namespace paceline::agent
