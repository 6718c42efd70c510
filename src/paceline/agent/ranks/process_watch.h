#pragma once

// Processes of this host that the keeper has not started: tells when each of them has ended.
// Everything runs on the loop's thread.

#include <cstdint>
#include <functional>
#include <map>

#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"

namespace paceline::agent {

class ProcessWatch {
 public:
  using Key = uint64_t;

  explicit ProcessWatch(Reactor& reactor) : reactor_(reactor) {}
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // Calls `ended` once, when that process has ended. False: there is no such process, and nothing
  // is watched. A key that is in use is watched no more before.
  bool Add(Key key, const ProcessId& process, std::function<void()> ended);
  void Remove(Key key);
  bool Has(Key key) const { return watched_.contains(key); }
  bool empty() const { return watched_.empty(); }

 private:
  Reactor& reactor_;
  std::map<Key, Fd> watched_;
};

}  // namespace paceline::agent
