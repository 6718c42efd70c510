#pragma once

// Limits the memory of untrusted JSON before it is parsed. A parsed array takes some 75 bytes for
// the one byte of its bracket, so a limit of the text's bytes does not limit memory.

#include <cstdint>
#include <string_view>

namespace paceline {

// Counts of a text's brackets, braces, commas and quotes. The text need not be JSON.
struct JsonShape {
  uint64_t depth = 0;       // of the deepest array or object
  uint64_t containers = 0;  // arrays and objects
  uint64_t values = 0;      // containers, and commas
  uint64_t members = 0;     // of the outermost container
};
// Stops when the depth exceeds `depth_max`.
JsonShape ShapeOfJson(std::string_view text, uint64_t depth_max);

struct JsonLimit {
  uint64_t depth = 0;
  uint64_t containers = 0;
  uint64_t values = 0;

  // For formats whose text has at least `to_container` bytes for each container and `to_value`
  // bytes for each value. The first kFree of each need no text, so that a short text may have more.
  static constexpr JsonLimit PerByte(uint64_t bytes, uint64_t depth, uint64_t to_container,
                                     uint64_t to_value) {
    constexpr uint64_t kFree = 65'536;
    return {depth, kFree + bytes / to_container, kFree + bytes / to_value};
  }
  bool Holds(const JsonShape& shape) const {
    return shape.depth <= depth && shape.containers <= containers && shape.values <= values;
  }
};

}  // namespace paceline
