#pragma once

#include <ctime>
#include <string>

namespace paceline::wire {

// Why a host whose clock says `now` cannot use the certificate yet; empty: it can.
std::string WhyNotYet(const std::string& pem, std::time_t now);

}  // namespace paceline::wire
