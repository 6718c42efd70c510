#pragma once

// The other end of a process's socket, from /proc/PID/net.

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::agent {

// "10.0.0.3:8080", "[fd00::3]:8080", or "10.0.0.2:53, a name server" for UDP to port 53. Empty if
// the inode is no TCP or UDP socket with another end. `folder` is the process's folder in /proc,
// which shows the sockets of its network namespace.
std::string PeerOf(const std::string& folder, uint64_t inode);

// The inode in "socket:[12345]", a descriptor's target; 0 if it is no socket.
uint64_t SocketInode(std::string_view target);

// An address and port as the kernel prints them in /proc/net/tcp and tcp6: "0300000A:1F90". Empty
// if the text is none, or if it is the zero address of a socket without another end.
std::string AddressText(std::string_view printed);

}  // namespace paceline::agent
