#pragma once

// The JSON files that an agent leaves in its node's folder for other programs and later agents;
// docs/formats/run_dir.md.

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "paceline/agent/agent_setup.h"
#include "paceline/base/json.h"
#include "paceline/core/node/agent.h"
#include "paceline/model/ids.h"
#include "paceline/wire/messages.h"

namespace paceline::agent {

// Null if the file is missing or is not JSON.
nlohmann::json ReadJson(const std::string& path);

// The progress of a node.
struct AgentProgress {
  Generation generation;    // core::AgentMachine::newest_used
  uint64_t term = 0;        // the highest of the masters that the node has met
  std::string checkpoints;  // directory of the job's checkpoints; "": not known yet
  std::string rescued;      // the checkpoint with which a rescue has ended the job; "": none
  bool operator==(const AgentProgress&) const = default;
};
// Whether an agent exits because it was told to.
struct Leave {
  bool has_left = false;
  bool is_job_over = false;  // the whole job ends, not only this node
};
// Writes agent.json: the agent of this node and its progress. `restart_count` of the last completed
// assignment.
void SaveAgentJson(const AgentSetup& setup, const AgentProgress& progress, uint32_t restart_count,
                   Leave leave);
// The path of a node's progress page, from its agent.json.
std::string PagePathIn(const std::string& run_dir, const std::string& node);
// How the agent with this pid left.
Leave LeaveOf(const AgentFiles& files, pid_t pid);

// The event for an agent that was refused for good. Its ranks are ended if another node has their
// place, or their job is gone.
core::MasterRefused RefusedBy(const wire::Refusal& refusal, Duration stop_grace);
// The event for an agent whose job ends by a rescue.
core::LeaveAsked RescuedLeave(Duration stop_grace);
// The refusal by a master that ended the stream because it does not accept the agent.
wire::Refusal DeniedBecause(const std::string& why);
// For the launcher: why the job ends here under a rescue.
wire::Refusal EndedByRescue();
// Writes problem.json: why the master refused this agent, or why the job ends here.
void SaveProblem(const AgentFiles& files, const wire::Refusal& refusal);
// Removes the problem of an earlier agent.
void ForgetProblem(const AgentFiles& files);

}  // namespace paceline::agent
