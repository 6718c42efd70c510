#pragma once

// Watches processes of this host that the keeper did not start, and reports their ends. Runs on the
// loop's thread.

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

  // Calls `ended` once when that process ends. False: there is no such process. Replaces an earlier
  // watch with the same key.
  bool Add(Key key, const ProcessId& process, std::function<void()> ended);
  void Remove(Key key);
  bool Has(Key key) const { return watched_.contains(key); }
  bool empty() const { return watched_.empty(); }

 private:
  Reactor& reactor_;
  std::map<Key, Fd> watched_;
};

}  // namespace paceline::agent
