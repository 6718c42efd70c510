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

// "" without a detail of that name.
std::string DetailOf(const wire::JobEvent& event, const std::string& name);

// Cells of `text`; 0 = no limit.
std::string ClipTo(std::string text, size_t width);

// Nanoseconds since 1970, as events have them.
Instant WallNow();

}  // namespace paceline::cli
