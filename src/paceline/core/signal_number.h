#pragma once

// Linux's numbers, as exit causes and orders carry them. The pure layers see no <csignal>.

namespace paceline::core {

inline constexpr int kSigint = 2;
inline constexpr int kSigkill = 9;
inline constexpr int kSigterm = 15;

}  // namespace paceline::core
