#pragma once

// Internal to wire: waits of gRPC that do not grow when the wall clock is set back.
//
// gRPC's timers wait in Abseil, and Abseil waits in the kernel until a time of the wall clock. If
// the clock is set back by an hour meanwhile, the thread sleeps an hour longer: no deadline, no
// keepalive and no new connection until then. So the linker takes __wrap_syscall of this file for
// syscall(2) in the whole program, and such a wait ends by the monotonic clock.

#include <ctime>

namespace paceline::wire {

// The time of the monotonic clock at which the wall clock shows `deadline` if nobody sets it. Not
// before the epoch, where the kernel refuses a time.
timespec OnMonotonicClock(const timespec& deadline, const timespec& wall_now,
                          const timespec& monotonic_now);

}  // namespace paceline::wire
