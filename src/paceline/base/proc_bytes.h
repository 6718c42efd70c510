#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline {

// The bytes of the line "Name:   12345 kB" in the text of a file such as /proc/meminfo or
// /proc/PID/status. `name` has the colon. None: there is no such line.
std::optional<uint64_t> ProcBytes(std::string_view text, std::string_view name);

}  // namespace paceline
