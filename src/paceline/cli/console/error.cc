#include "paceline/cli/console/error.h"

#include "paceline/base/json.h"
#include "paceline/cli/console/error_codes.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kRed = "\x1b[1;31m";
constexpr std::string_view kYellow = "\x1b[1;33m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kReset = "\x1b[0m";
constexpr size_t kPartLinesMax = 3;

void AppendPart(std::string& out, std::string_view label, std::string_view text, bool color) {
  if (text.empty()) return;
  const std::string padded = std::string(label) + std::string(7 - label.size(), ' ');
  size_t lines = 0;
  for (const std::string_view line : SplitLines(text)) {
    if (lines == kPartLinesMax) {
      out += "         …\n";
      return;
    }
    out += "  ";
    if (lines == 0) {
      out += color ? std::string(kDim) + padded + std::string(kReset) : padded;
    } else {
      out += std::string(7, ' ');
    }
    out += Visible(line);
    out += '\n';
    ++lines;
  }
}

std::string_view CodeForStatus(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded: return "PL-E030";
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied: return "PL-E102";
    case absl::StatusCode::kInvalidArgument: return "PL-E003";
    case absl::StatusCode::kNotFound: return "PL-E024";
    case absl::StatusCode::kDataLoss: return "PL-E034";
    case absl::StatusCode::kResourceExhausted: return "PL-E042";
    default: return "PL-E099";
  }
}

}  // namespace

Problem ProblemFrom(const absl::Status& status) {
  if (auto problem = ProblemOf(status)) return *std::move(problem);
  const std::string_view code = CodeForStatus(status.code());
  const ErrorCode* row = FindErrorCode(code);
  return Problem{.code = std::string(code),
                 .what = std::string(row->title),
                 .why = std::string(status.message()),
                 .fix = "paceline why " + std::string(code)};
}

int ExitCodeOf(const Problem& problem) {
  const ErrorCode* row = FindErrorCode(problem.code);
  return row == nullptr ? kExitTrainingFailed : row->exit_code;
}

std::string RenderProblem(const Problem& problem, const ErrorStyle& style) {
  std::string out;
  if (style.color) out += style.severity == "error" ? kRed : kYellow;
  out += std::string(style.severity) + "[" + Visible(problem.code) + "]";
  if (style.color) out += std::string(kReset) + std::string(kBold);
  out += ": " + Visible(problem.what);
  if (style.color) out += kReset;
  out += '\n';
  AppendPart(out, "where", problem.where, style.color);
  AppendPart(out, "why", problem.why, style.color);
  AppendPart(out, "fix", problem.fix, style.color);
  return out;
}

std::optional<Problem> FirstProblemIn(std::string_view text) {
  constexpr std::string_view kHead = "error[";
  constexpr std::string_view kNextLine = "         ";
  const size_t begin = text.find("error[PL-");
  if (begin == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> lines = SplitLines(text.substr(begin));
  const size_t code_end = lines.front().find("]: ");
  if (code_end == std::string_view::npos) return std::nullopt;
  Problem problem;
  problem.code = lines.front().substr(kHead.size(), code_end - kHead.size());
  problem.what = lines.front().substr(code_end + 3);
  std::string* part = nullptr;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    std::string* const former = part;
    if (line.starts_with("  where  ")) part = &problem.where;
    if (line.starts_with("  why    ")) part = &problem.why;
    if (line.starts_with("  fix    ")) part = &problem.fix;
    const bool goes_on = part == former && line.starts_with(kNextLine);
    if (part == nullptr || (part == former && !goes_on)) break;
    if (goes_on) *part += '\n';
    *part += line.substr(kNextLine.size());
  }
  return problem;
}

std::string RenderProblemJson(const Problem& problem) {
  nlohmann::ordered_json json;
  json["schema"] = "paceline.error/1";
  json["code"] = problem.code;
  json["message"] = problem.what;
  json["cause"] = problem.why;
  json["where"] = problem.where;
  json["fix"] = problem.fix;
  json["docs"] = "docs/errors.md#" + problem.code;
  return PrintJson(json);
}

}  // namespace paceline::cli
