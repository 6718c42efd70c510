#pragma once

// CHECK(condition, "what it means"): an invariant that only our own bug can break. Stays on in
// release builds, because continuing with a broken invariant costs more than stopping. Not for
// network, disk or user input, which get a Status.

#include <string_view>

namespace paceline {

// Prints file, line, the condition and the message to stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message = {});

}  // namespace paceline

#define CHECK(condition, ...)                                                             \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      ::paceline::CheckFailed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                     \
  } while (false)
