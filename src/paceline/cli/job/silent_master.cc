#include "paceline/cli/job/silent_master.h"

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/host_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"

namespace paceline::cli {
namespace {

bool IsMasterStopped(const JobPlace& place) {
  const char state = agent::ReadStat(place.master_pid).state;
  return state == 'T' || state == 't';
}

}  // namespace

Problem MasterIsSilent(const JobPlace& place) {
  if (place.is_joined) return MasterIsAway(place);
  Problem problem{.code = "PL-E030",
                  .what = Concat("the master of ", place.id, " does not answer"),
                  .where = Concat("on this host, ", HostName(), ", in ", place.run_dir),
                  .why = "no process of it lives now",
                  .fix = Concat(MasterComesText(place), "; then type the same command again")};
  if (!place.has_master()) return problem;
  problem.where = Concat("process ", place.master_pid, " on this host, ", HostName());
  if (IsMasterStopped(place)) {
    problem.why = "the process is stopped (SIGSTOP)";
    problem.fix = Concat("kill -CONT ", place.master_pid, "; then type the same command again");
    return problem;
  }
  problem.why = Concat("the process lives, and gave no answer within ",
                       ToString(kFirstAnswerPatience), "; it may wait for its disk or for the CPU");
  problem.fix = Concat("type the same command again later; ", place.run_dir,
                       "/logs/master.log says more, and `paceline stop --job ", ShellWord(place.id),
                       "` ends the job without its master");
  return problem;
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
  if (!place.has_launcher()) return ResumeCommand(place.run_dir) + " takes over";
  const std::string log = Concat("; ", place.run_dir, "/logs/master.log says more");
  const std::string launcher = Concat("its launcher (process ", place.launcher_pid, ") ");
  if (!place.has_master()) return Concat(launcher, "starts the master again", log);
  if (IsMasterStopped(place)) {
    return Concat("the master (process ", place.master_pid, ") is stopped (SIGSTOP); kill -CONT ",
                  place.master_pid, " lets it go on");
  }
  return Concat(launcher, "waits for the master (process ", place.master_pid, ")", log);
}

}  // namespace paceline::cli
