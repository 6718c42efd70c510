#pragma once

// System calls that a signal may interrupt.

#include <fcntl.h>

#include <cerrno>
#include <cstdint>

namespace paceline {

// The call's result, or -errno. Repeats the call after EINTR.
template <class Call>
auto Retried(const Call& call) {
  decltype(call()) result = 0;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result < 0 ? static_cast<decltype(call())>(-errno) : result;
}

// Reserves a part of a file, so that later writes to it find room. Returns 0 or -errno. Where the
// file system cannot do that, the C library writes to each block.
inline int ReserveRange(int fd, uint64_t at, uint64_t bytes) {
  return Retried([&] {
    errno = ::posix_fallocate(fd, static_cast<off_t>(at), static_cast<off_t>(bytes));
    return errno == 0 ? 0 : -1;
  });
}

}  // namespace paceline
