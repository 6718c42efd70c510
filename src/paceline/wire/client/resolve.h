#pragma once

// Resolves host names. Some name servers of a cluster may not know a new name for seconds, so a
// caller can retry for a while.

#include <netdb.h>

#include <functional>
#include <memory>
#include <string>

namespace paceline::wire {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// The addresses of `host` (without brackets), with that port or service. Null if it does not
// resolve, or if `hints` requires a number and it is none.
AddressList Resolve(const std::string& host, const std::string& service, const addrinfo& hints);

// Calls `look` until it returns true, for at most ten seconds, and blocks meanwhile. Name servers
// learn a new name or address at different times, up to seconds apart. So a process may not find
// what the process that started it has just found.
void WhileNamesSpread(const std::function<bool()>& look);

}  // namespace paceline::wire
