#pragma once

// A trace as JSON, docs/formats/pool_trace.md.

#include <optional>
#include <string>
#include <string_view>

#include "paceline/sim/pool/trace.h"

namespace paceline::sim {

std::string TraceText(const PoolTrace& trace);

// None if `text` is no trace; *wrong then says why, in one sentence. Jobs are sorted by arrival.
std::optional<PoolTrace> ReadTrace(std::string_view text, std::string* wrong);

}  // namespace paceline::sim
