#pragma once

// Events as lines that people read.

#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

// "rank_failed", …: all kinds that a journal can hold.
std::vector<std::string_view> EventKinds();

// "    17  14:02:11.0  rank_failed        rank 3 on node1 was killed …", in local time.
std::string EventLine(const wire::JobEvent& event);
// The same with another sentence.
std::string EventLine(const wire::JobEvent& event, const std::string& sentence);

// The sentences of a job's end give one reason three times: "stop: R", "paceline ends the
// job with exit code 1: R", "the job has ended with exit code 1: R". Shortens those whose reason
// was told last.
class ReasonTold {
 public:
  std::string Shorten(const wire::JobEvent& event);

 private:
  std::string reason_;
};

// "14:02:11.0", in local time.
std::string TimeOfDay(int64_t time_ns);
// "2026-11-28 14:02", in local time.
std::string DateAndTime(int64_t time_ns);

// "" without a detail of that name.
std::string DetailOf(const wire::JobEvent& event, const std::string& name);

// Cells of `text`; 0 = no limit.
std::string ClipTo(std::string text, size_t width);

// Nanoseconds since 1970, as events have them.
Instant WallNow();

}  // namespace paceline::cli
