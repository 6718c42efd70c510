#pragma once

// Resolves host names. A name that a cluster has just published may be unknown to some of its name
// servers for seconds, so a caller can ask to look again for a while.

#include <netdb.h>

#include <functional>
#include <memory>
#include <string>

namespace paceline::wire {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// The addresses of `host`, which has no brackets, with that port or service. Null when it does not
// resolve, or is no number and `hints` wants one.
AddressList Resolve(const std::string& host, const std::string& service, const addrinfo& hints);

// Calls `look` until it returns true, for at most ten seconds; blocks for that long.
//
// Of several name servers one may know a new name, or its new address, seconds before another does.
// So a process may not find what the one that started it has just found.
void WhileNamesSpread(const std::function<bool()>& look);

}  // namespace paceline::wire
