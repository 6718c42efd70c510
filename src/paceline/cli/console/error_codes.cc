#include "paceline/cli/console/error_codes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include "paceline/cli/console/data_error_codes.h"
#include "paceline/cli/console/error_code_list.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

constexpr auto kErrorCodes = [] {
  std::array<ErrorCode, std::size(kJobErrorCodes) + std::size(kDataErrorCodes)> all{};
  auto* const end = std::copy(std::begin(kJobErrorCodes), std::end(kJobErrorCodes), all.data());
  std::copy(std::begin(kDataErrorCodes), std::end(kDataErrorCodes), end);
  return all;
}();

// "PL-E012", "e012", "E12" and "12" all mean PL-E012; "" when it has no such shape.
std::string FullCode(std::string_view asked) {
  std::string upper;
  for (const char c : asked) {
    upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  if (upper.starts_with("PL-")) upper.erase(0, 3);
  char letter = 'E';
  if (upper.starts_with("E") || upper.starts_with("W")) {
    letter = upper.front();
    upper.erase(0, 1);
  }
  if (upper.empty() || upper.size() > 3 ||
      upper.find_first_not_of("0123456789") != std::string::npos) {
    return "";
  }
  return std::string("PL-") + letter + std::string(3 - upper.size(), '0') + upper;
}

}  // namespace

std::span<const ErrorCode> ErrorCodes() { return kErrorCodes; }

const ErrorCode* FindErrorCode(std::string_view asked) {
  const std::string code = FullCode(asked);
  const auto* found = std::find_if(std::begin(kErrorCodes), std::end(kErrorCodes),
                                   [&](const ErrorCode& row) { return row.code == code; });
  return found == std::end(kErrorCodes) ? nullptr : &*found;
}

std::string ErrorCodesMarkdown() {
  std::string page = "# Errors\n\n";
  page += Wrap(
      "An error has four parts, always in this order: what happened, where, why, and how to fix "
      "it. The code in brackets leads here; `paceline why PL-E012` prints the same text. With "
      "`--json` an error is one object on stdout: "
      "`{\"schema\":\"paceline.error/1\",\"code\",\"message\",\"cause\","
      "\"where\",\"fix\",\"docs\"}`.",
      0, 100);
  page += "\n" + Wrap(
                     "This page is made by `paceline config docs errors` from "
                     "`src/paceline/cli/console/error_code_list.h` and `data_error_codes.h`; a "
                     "test compares them.",
                     0, 100);
  page +=
      "\n## Exit codes\n\n| code | meaning |\n|---|---|\n"
      "| 0 | done |\n| 1 | training failed after the restart policy, or the control plane broke |\n"
      "| 2 | usage or settings |\n| 3 | control plane unreachable |\n| 4 | not authorised |\n"
      "| 5 | done, with findings (`doctor`, `ckpt verify`, `ckpt diff`, `clean`, `sim`); no "
      "parallel plan |\n"
      "| 10 | stopped by Kubernetes' operator (suspended or deleted), with the state saved: the "
      "next master goes on |\n"
      "| 11 | all done, but the last saved step is not in storage: `--resume` brings it there "
      "|\n"
      "| 92 | this node was taken out of the job, or another incarnation has its place |\n"
      "| 124 | `wait` timed out |\n"
      "| 130, 143 | ended by SIGINT, SIGTERM; systemd, Slurm and `paceline stop` send SIGTERM "
      "|\n\n## Codes\n";
  for (const ErrorCode& row : kErrorCodes) {
    page += "\n### " + std::string(row.code) + ": " + std::string(row.title) + "\n\n" +
            Wrap(row.text, 0, 100) + "\nExit code " + std::to_string(row.exit_code) + ".\n";
  }
  return page;
}

}  // namespace paceline::cli
