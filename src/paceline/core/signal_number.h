#pragma once

// Linux's signal numbers for exit causes and orders. The pure layers do not include <csignal>.

namespace paceline::core {

inline constexpr int kSigint = 2;
inline constexpr int kSigkill = 9;
inline constexpr int kSigterm = 15;

}  // namespace paceline::core
