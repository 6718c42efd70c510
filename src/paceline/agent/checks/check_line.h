#pragma once

// What a check of the user printed: one JSON line {"ok": true, "reason": "…", "numbers": {…}}.

#include <string>
#include <string_view>

#include "paceline/base/json.h"

namespace paceline::agent {

// Stands among the paths of the checks for paceline's own, `paceline doctor --measure`.
inline constexpr std::string_view kHostCheck = "host";

// A longer text, or larger numbers, would fill the journal.
inline constexpr size_t kCheckReasonMax = 300;
inline constexpr size_t kCheckNumbersMax = 4096;

struct CheckLine {
  bool ok = false;
  std::string reason;      // of a failure, never empty
  nlohmann::json numbers;  // an object, or null
};

// Whether a check has passed, by the wait status of its process and by its output. Of the output,
// the last line counts that is a JSON object with "ok". A check may print other lines, too.
CheckLine ReadCheck(int wait_status, std::string_view output);

}  // namespace paceline::agent
