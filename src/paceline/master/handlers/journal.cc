// What the journal's thread tells: how far the disk is, or that it refuses.

#include "paceline/base/log.h"
#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const RecordsDurable& durable) const {
  if (loop.journal_state_ != "ok") LogInfo("journal_ok", {{"seq", durable.last}});
  loop.journal_state_ = "ok";
  loop.executor_.SetDurable(durable.last);
  loop.ServeWatchers();
}

void Handlers::operator()(const JournalFailed& failed) const {
  ++loop.counters_.journal_failures;
  if (loop.journal_state_ != failed.why) LogError("journal_failed", {{"why", failed.why}});
  loop.journal_state_ = failed.why;
}

}  // namespace paceline::master
