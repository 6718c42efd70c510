#pragma once

// The name of this host, its loopback address, and the form of a host before a port.

#include <string>

namespace paceline {

// The name that gethostname(2) gives; "" if it fails.
std::string HostName();

// "127.0.0.1", or "::1" on a host that has no IPv4 loopback address.
std::string LoopbackHost();

// The host as it stands before ":PORT": an IPv6 address gets brackets ("fd77::1" becomes
// "[fd77::1]"), anything else stays as it is.
std::string Bracketed(const std::string& host);

}  // namespace paceline
