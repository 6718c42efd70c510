#include "paceline/wire/codec/judge.h"

#include <cctype>

namespace paceline::wire {

bool IsName(std::string_view text) {
  if (text.empty() || text.size() > 128 || text[0] == '.') return false;
  for (const unsigned char c : text) {
    if (!std::isalnum(c) && c != '.' && c != '_' && c != '-') return false;
  }
  return true;
}

}  // namespace paceline::wire
