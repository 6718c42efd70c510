#pragma once

// Agents for the nodes of this host whose agents have ended. They find the images that are still in
// memory, and take part in a rescue.

#include <string>
#include <vector>

#include "paceline/base/spawn.h"
#include "paceline/cli/command.h"
#include "paceline/cli/job/job_place.h"

namespace paceline::cli {

class StandInAgents {
 public:
  // Starts them, except if the job's launcher lives here: it starts them itself. An agent that
  // cannot be started is left out; its log says why.
  StandInAgents(const Invocation& invocation, const JobPlace& place);
  // Ends those that still live, because the rescue has changed nothing.
  void Stop();

 private:
  std::vector<SpawnedProcess> agents_;
};

}  // namespace paceline::cli
