#pragma once

// The name of this host, and the form of a host before a port.

#include <string>

namespace paceline {

// The name that gethostname(2) gives; "" if it fails.
std::string HostName();

// The host as it stands before ":PORT": an IPv6 address gets brackets ("fd77::1" becomes
// "[fd77::1]"), anything else stays as it is.
std::string Bracketed(const std::string& host);

}  // namespace paceline
