#pragma once

// Who may read the job's page: a link has a code, which is traded once for a session.

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/base/instant.h"

namespace paceline::master {

// From any thread.
class PageDoor {
 public:
  static constexpr Duration kCodeLives = Duration::Seconds(60);
  static constexpr size_t kCodesMax = 64;  // a further code replaces the oldest

  explicit PageDoor(std::string job_token) : job_token_(std::move(job_token)) {}

  std::string MakeCode(Instant now);

  // A session. None: the code is unknown, used or too old.
  std::optional<std::string> Trade(std::string_view code, Instant now);

 private:
  const std::string job_token_;
  std::mutex mutex_;                      // guards the member below
  std::map<std::string, Instant> codes_;  // when each was made
};

}  // namespace paceline::master
