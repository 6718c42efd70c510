#pragma once

// Returns an absl::Status to the caller without nested ifs.
//
//   RETURN_IF_ERROR(file.Sync());
//   ASSIGN_OR_RETURN(const int fd, OpenFile(path));
//
// Both work in functions that return Status or StatusOr (and, by base/result.h, Result). Debian's
// Abseil has its own string_view; Text() and the functions below convert it.

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/base/result.h"

namespace paceline {

// The message of a status as a standard string_view. Valid as long as the status lives.
inline std::string_view Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

inline absl::Status MakeStatus(absl::StatusCode code, std::string_view message) {
  return {code, absl::string_view(message.data(), message.size())};
}

// The same code, with "context: " in front of the message.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return MakeStatus(status.code(), std::string(context) + ": " + std::string(Text(status)));
}

namespace status_internal {
inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}
}  // namespace status_internal

}  // namespace paceline
