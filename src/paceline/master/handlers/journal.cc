// Messages of the journal's thread: records are durable, or the disk refuses.

#include <utility>

#include "paceline/base/log.h"
#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const RecordsDurable& durable) const {
  const bool was_ok = std::exchange(loop.journal_state_, "ok") == "ok";
  if (!was_ok) LogInfo("journal_ok", {{"seq", durable.last}});
  loop.executor_.SetDurable(durable.last);
  loop.copies_.SetDurable(durable.last);
  loop.notices_.SetDurable(durable.last);
  if (!was_ok) loop.Step(core::JournalCaughtUp{});
  loop.ServeWatchers();
}

void Handlers::operator()(const JournalFailed& failed) const {
  ++loop.counters_.journal_failures;
  if (loop.journal_state_ != failed.why) LogError("journal_failed", {{"why", failed.why}});
  if (std::exchange(loop.journal_state_, failed.why) == "ok") loop.Step(core::JournalStalled{});
}

}  // namespace paceline::master
