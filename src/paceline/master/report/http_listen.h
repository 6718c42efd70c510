#pragma once

// The listening socket of the master's HTTP.

#include "paceline/base/fd.h"

namespace paceline::master {

// A listening socket on the loopback address, or a closed one; errno says why. libevent would look
// the address up as a name, which fails on a host that has no IPv4 address but 127.0.0.1.
Fd ListenOnLoopback(int port);

// 0 if the socket has none.
int BoundPort(int fd);

}  // namespace paceline::master
