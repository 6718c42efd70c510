#include "paceline/core/checkpoint/storage_wait.h"

#include <algorithm>

#include "paceline/base/text.h"
#include "paceline/model/directory_claim.h"

namespace paceline::core {

bool IsForGood(const std::string& problem) {
  return problem.find(kRefusedForGood) != std::string::npos;
}

std::string MendingOf(std::string_view directory, std::string_view reason) {
  // The system's words for ENOENT: the directory was removed, or its disk is not mounted.
  const bool is_gone = reason.find("No such file or directory") != std::string_view::npos;
  if (is_gone && directory.starts_with('/')) {
    return Concat("mkdir ", directory, ", or move it back");
  }
  return "make room there or correct its access rights";
}

bool IsSameReason(std::string_view a, std::string_view b) {
  const auto words = [](std::string_view text) {
    std::string kept;
    for (const char c : text) {
      if (c < '0' || c > '9') kept += c;
    }
    return kept;
  };
  return words(a) == words(b);
}

bool StorageWait::Refuse(Instant now, Duration limit, const std::string& problem) {
  since_ = std::min(since_, now);
  return IsForGood(problem) || now >= since_ + limit;
}

Instant StorageWait::RetryAt(Instant now, Duration pause, Duration limit) const {
  const Instant soon = now + std::min(pause, kRetryMax);
  const bool is_last_ahead = is_waiting() && now < since_ + limit;
  return is_last_ahead ? std::min(soon, since_ + limit) : soon;
}

}  // namespace paceline::core
