#include <nlohmann/json.hpp>

#include "paceline/cli/command.h"
#include "paceline/cli/error_codes.h"
#include "paceline/cli/exit_code.h"
#include "paceline/cli/text.h"

namespace paceline::cli {
namespace {

int ExplainCode(Invocation& invocation, const ErrorCode& row) {
  Output& out = invocation.out;
  if (out.is_json()) {
    nlohmann::ordered_json json;
    json["schema"] = "paceline.error_code/1";
    json["code"] = row.code;
    json["title"] = row.title;
    json["text"] = row.text;
    json["exit_code"] = row.exit_code;
    out.DataLine(json.dump());
    return kExitDone;
  }
  const size_t width = out.width() == 0 ? 80 : out.width();
  out.DataLine(out.Painted(Paint::kBold, std::string(row.code) + ": " + std::string(row.title)));
  out.Data("\n" + Wrap(row.text, 2, width));
  out.Data("\n  exit code " + std::to_string(row.exit_code) + "\n");
  return kExitDone;
}

}  // namespace

int RunWhy(Invocation& invocation) {
  if (invocation.line.positionals.empty()) {
    return invocation.out.Fail({.code = "PL-E010",
                                .what = "paceline why needs an error code",
                                .where = "the command line",
                                .fix = "paceline why PL-E012"});
  }
  const std::string& asked = invocation.line.positionals.front();
  if (const ErrorCode* row = FindErrorCode(asked)) return ExplainCode(invocation, *row);
  std::vector<std::string_view> codes;
  for (const ErrorCode& row : ErrorCodes()) codes.push_back(row.code);
  const std::string_view nearest = Nearest(asked, codes);
  return invocation.out.Fail({.code = "PL-E010",
                              .what = "there is no error code " + asked,
                              .where = "paceline why " + ShellWord(asked),
                              .why = "codes look like PL-E012 or PL-W001",
                              .fix = nearest.empty()
                                         ? "see docs/errors.md"
                                         : "did you mean " + std::string(nearest) + "?"});
}

}  // namespace paceline::cli
