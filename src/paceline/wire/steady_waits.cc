#include "paceline/wire/steady_waits.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <array>
#include <cstdarg>
#include <cstdint>

namespace paceline::wire {

timespec OnMonotonicClock(const timespec& deadline, const timespec& wall_now,
                          const timespec& monotonic_now) {
  constexpr long kSecondNs = 1'000'000'000;
  timespec at{.tv_sec = deadline.tv_sec - wall_now.tv_sec + monotonic_now.tv_sec,
              .tv_nsec = deadline.tv_nsec - wall_now.tv_nsec + monotonic_now.tv_nsec};
  if (at.tv_nsec < 0) {
    at.tv_nsec += kSecondNs;
    --at.tv_sec;
  }
  if (at.tv_nsec >= kSecondNs) {
    at.tv_nsec -= kSecondNs;
    ++at.tv_sec;
  }
  return at.tv_sec < 0 ? timespec{} : at;
}

}  // namespace paceline::wire

// The linker's option --wrap gives the C library's function this name.
extern "C" long __real_syscall(long number, ...);

extern "C" long __wrap_syscall(long number, ...) {
  std::array<long, 6> words{};  // no call of Linux has more arguments
  va_list list;
  va_start(list, number);
  for (long& word : words) word = va_arg(list, long);
  va_end(list);

  timespec at;
  const int operation = static_cast<int>(words[1]) & ~FUTEX_PRIVATE_FLAG;
  const auto* deadline = reinterpret_cast<const timespec*>(words[3]);
  if (number == SYS_futex && operation == (FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME) &&
      deadline != nullptr) {
    timespec wall;
    timespec monotonic;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    at = paceline::wire::OnMonotonicClock(*deadline, wall, monotonic);
    words[1] &= ~static_cast<long>(FUTEX_CLOCK_REALTIME);
    words[3] = reinterpret_cast<long>(&at);
  }
  return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
