#pragma once

// The account of an incident in a few lines: what was the cause, what was done about it, what that
// cost, and what happens now. Pure.

#include <optional>
#include <string>
#include <vector>

#include "paceline/cli/show/explain.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

struct Account {
  std::optional<wire::JobEvent> cause;     // none: nothing had failed, as when a job grows
  std::optional<wire::JobEvent> decision;  // none: nothing has been decided yet
  std::string cost;                        // empty: training has not gone on
  std::string now;                         // empty: the events do not tell
};

// `events` are all events of the job, in order of seq. `status` is that of now; none: not known.
Account AccountOf(const Explanation& why, const std::vector<wire::JobEvent>& events,
                  const std::optional<wire::JobStatus>& status = std::nullopt);

// "rank 2 on node0 was killed by SIGKILL, at step 19 (14:02:11.0)", in local time.
std::string CauseText(const wire::JobEvent& cause);

}  // namespace paceline::cli
