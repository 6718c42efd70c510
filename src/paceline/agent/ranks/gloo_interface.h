#pragma once

// gloo listens on the address that the host's own name resolves to, or on 127.0.0.1 if it resolves
// to none. Ranks of other hosts cannot connect to 127.0.0.1, and the job fails. The agent knows the
// address by which the other nodes reach this one, so it names that address's interface to gloo.

#include <string>

namespace paceline::agent {

// The address that gloo takes by itself: the first one of the name that this host can listen on.
// "": none. Resolves a name, so it may block for seconds.
std::string GlooChoice(const std::string& host_name);

// The value of GLOO_SOCKET_IFNAME that ranks need on this host: the interface with `address`, the
// numeric address by which other nodes reach this one. "": gloo finds an address by itself, because
// `host_name` resolves to an address of this host that the other nodes can reach too. Also "" if no
// interface has `address`. Resolves a name, so it may block for seconds.
std::string GlooInterface(const std::string& address, const std::string& host_name);

}  // namespace paceline::agent
