#include "paceline/cli/job/ended_run.h"

#include <poll.h>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/run_dir.h"

namespace paceline::cli {
namespace {

// A launcher kills what is left of an ended job before this time is over.
constexpr Duration kEndedPatience = Duration::Seconds(60);
constexpr int kEndedPauseMilliseconds = 20;

}  // namespace

void AwaitEndedRun(const std::string& run_dir, void (*say)(const std::string& text)) {
  const auto place = ReadJobPlace(run_dir);
  const auto card = ReadJobCard(run_dir);
  if (!place.ok() || !card.ok()) return;
  const auto has_process = [&] { return place->is_running() || HasAgent(*card, place->run_dir); };
  if (!has_process()) return;
  const auto status = StatusFromJournal(*place);
  if (!status.ok() || status->phase != "finished") return;
  say(Concat(Visible(place->id), " has ended, and goes on when its last processes are gone"));
  const Instant deadline = agent::MonotonicNow() + kEndedPatience;
  while (has_process() && agent::MonotonicNow() < deadline) {
    poll(nullptr, 0, kEndedPauseMilliseconds);
  }
}

}  // namespace paceline::cli
