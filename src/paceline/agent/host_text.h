#pragma once

// Names and addresses of this host, as texts.

#include <string>

namespace paceline::agent {

// What gethostname says; "" when it says nothing.
std::string HostName();

// "10.0.0.1" as it is, "fd77::1" as "[fd77::1]": a port may follow.
std::string Bracketed(const std::string& host);

}  // namespace paceline::agent
