#include "paceline/cli/ckpt/stand_in_agents.h"

#include <signal.h>

#include <utility>

#include "paceline/cli/job/run_dir.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/platform/local.h"

namespace paceline::cli {

StandInAgents::StandInAgents(const Invocation& invocation, const JobPlace& place) {
  const auto card = ReadJobCard(place.run_dir);
  const auto runtime_dir = OpenRuntimeDir(invocation.environment);
  if (place.has_launcher() || !card.ok() || !runtime_dir.ok()) return;
  const platform::LocalPlatform local{
      .binary = ReadHostFacts(invocation.environment).binary_dir + "/paceline",
      .run_dir = place.run_dir,
      .runtime_dir = *runtime_dir,
      .job_id = place.id};
  for (const std::string& node : card->nodes) {
    if (FindAgent(place.run_dir, node).pid != 0) continue;
    auto started = local.StartAgent(node, 0);
    if (started.ok()) agents_.push_back(*std::move(started));
  }
}

void StandInAgents::Stop() {
  for (const SpawnedProcess& agent : agents_) ::kill(agent.pid, SIGTERM);
  agents_.clear();
}

}  // namespace paceline::cli
