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

// At most kHistoryBytesMax bytes, "" if not even the status fits. The ranks of the nodes and the
// plan are always left out. If the rest does not fit, long texts are cut first, then all nodes but
// 32 are left out of the status, then the oldest events.
std::string EncodeHistory(KeptHistory history);

// From base64.
absl::StatusOr<KeptHistory> HistoryFromText(std::string_view text);

}  // namespace paceline::wire
