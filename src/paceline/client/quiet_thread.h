#pragma once

// Gives the calling thread low priority, and keeps signals away from it, for the life of the
// object. A signal would interrupt long calls of the kernel; another thread of the process takes
// it.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace paceline::client {

class QuietThread {
 public:
  QuietThread() : before_(::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()))) {
    // On Linux the nice value belongs to a thread. On busy cores this one gets a tenth.
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), std::max(before_, kNice));
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &signals_);
  }
  ~QuietThread() {
    ::pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
    // Fails without privileges, and then the priority stays low. The thread ends soon.
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), before_);
  }
  QuietThread(const QuietThread&) = delete;
  QuietThread& operator=(const QuietThread&) = delete;

 private:
  static constexpr int kNice = 10;
  const int before_;
  sigset_t signals_{};
};

}  // namespace paceline::client
