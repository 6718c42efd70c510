#include "paceline/cli/job/host_trouble.h"

#include "paceline/agent/logs/disk_watch.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/run_dir.h"

namespace paceline::cli {

std::string FullDiskText(const std::string& run_dir) {
  return Concat("the disk of the run directory, ", Visible(run_dir),
                ", is full. The ranks go on, and what they print is lost until there is room.");
}

std::string NoLauncherText(const JobPlace& place) {
  return Concat("its launcher is gone, so an agent or master that dies is not restarted until ",
                ResumeCommand(place.run_dir));
}

bool HasAgents(const JobPlace& place) {
  const auto card = ReadJobCard(place.run_dir);
  return card.ok() && HasAgent(*card, place.run_dir);
}

Problem NobodyLeads(const JobPlace& place) {
  return {.code = "PL-E030",
          .what = Concat("nobody leads ", place.id, " now"),
          .where = place.run_dir,
          .why = "its master and its launcher have ended; its agents and ranks go on",
          .fix = Concat(ResumeCommand(place.run_dir), " takes over; then try again")};
}

std::vector<std::string> HostTroubles(const JobPlace& place, bool is_over) {
  std::vector<std::string> troubles;
  if (place.kept != nullptr) return troubles;  // the job was not on this host
  const bool takes_part = place.has_master() || HasAgents(place);
  if (!is_over && !place.has_launcher() &&
      (place.has_master() || (place.is_joined && takes_part))) {
    troubles.push_back(NoLauncherText(place));
  }
  agent::DiskWatch disk;
  disk.Look(agent::MonotonicNow(), agent::DiskWatch::FreeBytes(place.run_dir));
  const bool has_ended = is_over || (!place.has_launcher() && !takes_part);
  if (disk.is_full() && !has_ended) troubles.push_back(FullDiskText(place.run_dir));
  if (disk.is_full() && has_ended) {
    troubles.push_back(Concat("the disk of the run directory, ", Visible(place.run_dir),
                              ", is full. If it was full at the job's end, the ranks' last output "
                              "is lost, and so may be the job's last records."));
  }
  return troubles;
}

}  // namespace paceline::cli
