#pragma once

// An error in the four parts that users see: what, where, why, fix. A layer below the command line
// that knows the cause returns a Status with its Problem; the command line prints it as
//
//   error[PL-E031]: the master cannot listen on 127.0.0.1:29400
//     where  host0
//     why    the port is taken by process 4711 (python)
//     fix    paceline run --rdzv-endpoint 127.0.0.1:29401 …
//
// The codes and their long texts are in cli/console/error_codes.cc; a missing code fails the tests.
// Parts are plain text without line breaks at the end; `where` may have several lines.

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace paceline {

struct Problem {
  std::string code;  // "PL-E031"
  std::string what;  // one sentence without a full stop, readable alone
  std::string where;
  std::string why;
  std::string fix;  // one command or edit
  bool operator==(const Problem&) const = default;
};

inline constexpr char kProblemPayload[] = "paceline/problem";

// A Status of that kind with `problem`. Its message is readable alone.
inline absl::Status ToStatus(absl::StatusCode kind, const Problem& problem) {
  std::string message = problem.code + ": " + problem.what;
  if (!problem.why.empty()) message += " (" + problem.why + ")";
  absl::Status status(kind, message);
  std::string packed;
  for (const std::string* part :
       {&problem.code, &problem.what, &problem.where, &problem.why, &problem.fix}) {
    packed += *part;
    packed += '\0';
  }
  status.SetPayload(kProblemPayload, absl::Cord(packed));
  return status;
}

// The Problem in `status`, if any.
inline std::optional<Problem> ProblemOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kProblemPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string packed(*payload);
  std::array<std::string, 5> parts;
  size_t begin = 0;
  for (std::string& part : parts) {
    const size_t end = packed.find('\0', begin);
    if (end == std::string::npos) return std::nullopt;
    part = packed.substr(begin, end - begin);
    begin = end + 1;
  }
  return Problem{parts[0], parts[1], parts[2], parts[3], parts[4]};
}

}  // namespace paceline
