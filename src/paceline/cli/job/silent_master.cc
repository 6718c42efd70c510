#include "paceline/cli/job/silent_master.h"

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/host_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"

namespace paceline::cli {
namespace {

// Why no master answers, and what brings it back.
struct Silence {
  std::string why;
  std::string way;
};

Silence SilenceOf(const JobPlace& place) {
  const std::string log = Concat(place.run_dir, "/logs/master.log says more");
  if (IsMasterStopped(place)) {
    return {"the process is stopped (SIGSTOP)", Concat("kill -CONT ", place.master_pid)};
  }
  if (place.has_master()) {
    return {"the process lives and does not answer; it may wait for its disk or for the CPU",
            Concat(log, ", and `paceline stop ", NamedByFlag(place),
                   "` ends the job without its master")};
  }
  return {"no process of it lives now", place.has_launcher()
                                            ? Concat("its launcher (process ", place.launcher_pid,
                                                     ") starts the master again; ", log)
                                            : ResumeCommand(place.run_dir) + " takes over"};
}

}  // namespace

bool IsMasterStopped(const JobPlace& place) {
  if (!place.has_master()) return false;
  const char state = agent::ReadStat(place.master_pid).state;
  return state == 'T' || state == 't';
}

Problem MasterIsSilent(const JobPlace& place) {
  if (place.is_joined) return MasterIsAway(place);
  const Silence silence = SilenceOf(place);
  const bool is_slow = place.has_master() && !IsMasterStopped(place);
  return {.code = "PL-E030",
          .what = Concat("the master of ", place.id, " does not answer"),
          .where = place.has_master()
                       ? Concat("process ", place.master_pid, " on this host, ", HostName())
                       : Concat("on this host, ", HostName(), ", in ", place.run_dir),
          .why = silence.why,
          .fix = is_slow ? Concat("type the same command again later; ", silence.way)
                         : Concat(silence.way, "; then type the same command again")};
}

std::string SilenceText(const JobPlace& place) {
  std::string text = place.has_master()
                         ? Concat("the master (process ", place.master_pid, ") does not answer")
                         : "no master runs";
  const auto records = RecordsFromJournal(place);
  if (!records.ok()) return text;
  const Instant last = records->back().at;
  return Concat(text, ", and the journal has no record since ", TimeOfDay(last.nanoseconds()), " (",
                ToString(WallNow() - last), ")");
}

std::string MasterComesText(const JobPlace& place) {
  const Silence silence = SilenceOf(place);
  return place.has_master() ? Concat(silence.why, ": ", silence.way) : silence.way;
}

}  // namespace paceline::cli
