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

namespace {

// Without a master on this host, its agents tell that it takes part.
bool TakesPart(const JobPlace& place) {
  if (place.has_master()) return true;
  const auto card = ReadJobCard(place.run_dir);
  return place.is_joined && card.ok() && HasAgent(*card, place.run_dir);
}

}  // namespace

std::vector<std::string> HostTroubles(const JobPlace& place, bool is_over) {
  std::vector<std::string> troubles;
  if (!is_over && !place.has_launcher() && TakesPart(place)) {
    troubles.push_back(NoLauncherText(place));
  }
  agent::DiskWatch disk;
  disk.Look(agent::MonotonicNow(), agent::DiskWatch::FreeBytes(place.run_dir));
  if (disk.is_full() && !is_over) troubles.push_back(FullDiskText(place.run_dir));
  if (disk.is_full() && is_over) {
    troubles.push_back(Concat("the disk of the run directory, ", Visible(place.run_dir),
                              ", is full. If it was full at the job's end, the ranks' last output "
                              "is lost, and so may be the job's last records."));
  }
  return troubles;
}

}  // namespace paceline::cli
