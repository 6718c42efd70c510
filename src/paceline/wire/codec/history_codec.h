#pragma once

// What is kept of a job that has ended, where its journal is lost with its master's host: bytes
// that a platform's operator stores without reading them.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/wire/messages.h"

namespace paceline::wire {

// As base64 text, in which Kubernetes stores it, these are 16 KiB.
inline constexpr size_t kHistoryBytesMax = 12 * 1024;

struct KeptHistory {
  JobStatus status;
  std::vector<JobEvent> events;  // in the order of seq, with gaps
  bool operator==(const KeptHistory&) const = default;
};

// At most kHistoryBytesMax bytes. If all does not fit, long texts are cut first, then the oldest
// events are left out, then nodes of the status.
std::string EncodeHistory(KeptHistory history);

// From base64.
absl::StatusOr<KeptHistory> HistoryFromText(std::string_view text);

}  // namespace paceline::wire
