#pragma once

#include <string_view>

#include "paceline/model/node.h"

namespace paceline {

// As reports and pages show it; "" for kNone.
constexpr std::string_view RoleName(ExitCause::Role role) {
  switch (role) {
    case ExitCause::Role::kNone: return "";
    case ExitCause::Role::kCause: return "cause";
    case ExitCause::Role::kCascade: return "cascade";
    case ExitCause::Role::kAdvice: return "advice";
  }
  return "";
}

}  // namespace paceline
