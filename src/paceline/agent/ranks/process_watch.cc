#include "paceline/agent/ranks/process_watch.h"

#include <sys/epoll.h>

#include <utility>

namespace paceline::agent {

ProcessWatch::~ProcessWatch() {
  for (const auto& [key, fd] : watched_) reactor_.Unwatch(fd.get());
}

bool ProcessWatch::Add(Key key, const ProcessId& process, std::function<void()> ended) {
  Remove(key);
  Fd fd = OpenPidfd(process);
  if (!fd.is_open()) return false;
  const auto on_end = [this, key, ended = std::move(ended)](uint32_t) {
    Remove(key);
    ended();
  };
  if (!reactor_.Watch(fd.get(), EPOLLIN, on_end).ok()) return false;
  watched_.emplace(key, std::move(fd));
  return true;
}

void ProcessWatch::Remove(Key key) {
  const auto found = watched_.find(key);
  if (found == watched_.end()) return;
  reactor_.Unwatch(found->second.get());
  watched_.erase(found);
}

}  // namespace paceline::agent
