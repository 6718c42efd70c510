#include "paceline/base/json_limit.h"

namespace paceline {

JsonShape ShapeOfJson(std::string_view text, uint64_t depth_max) {
  JsonShape shape;
  uint64_t depth = 0;
  bool has_first = false;  // the outermost container is not empty
  for (size_t i = 0; i < text.size() && depth <= depth_max; ++i) {
    const char c = text[i];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
    const bool is_end = c == ']' || c == '}';
    if (depth == 1 && !is_end) has_first = true;
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
    } else if (c == '[' || c == '{') {
      ++shape.containers;
      ++depth;
      if (depth > shape.depth) shape.depth = depth;
    } else if (is_end && depth > 0) {
      --depth;
    } else if (c == ',') {
      ++shape.values;
      if (depth == 1) ++shape.members;
    }
  }
  shape.values += shape.containers;
  if (has_first) ++shape.members;
  return shape;
}

}  // namespace paceline
