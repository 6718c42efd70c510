// Control.WatchEvents: a watcher requests a page, the journal's thread reads it, and the next page
// is read after this one is sent. Only durable records are shown.

#include <utility>
#include <vector>

#include "paceline/base/log.h"
#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::EventsWanted& wanted) const {
  EventLoop::Watcher& watcher = loop.watchers_[wanted.watch];
  watcher.from_seq = wanted.from_seq;
  watcher.count_max = wanted.count_max;
  watcher.follow = wanted.follow;
  loop.ServeWatcher(wanted.watch, &watcher);
}

void Handlers::operator()(const wire::WatchEnded& ended) const {
  loop.watchers_.erase(ended.watch);
}

void Handlers::operator()(const RecordsRead& read) const {
  const wire::WatchId watch(read.request);
  const auto it = loop.watchers_.find(watch);
  if (it == loop.watchers_.end()) return;
  it->second.is_reading = false;
  if (!read.status.ok()) LogError("journal_read", {{"why", read.status}});
  std::vector<wire::JobEvent> events;
  for (const core::Record& record : read.records) {
    events.push_back(MakeJobEvent(record, loop.names_));
  }
  const bool is_last = !read.status.ok() || events.empty();
  loop.outside_->SendEvents(watch, std::move(events), is_last);
}

}  // namespace paceline::master
