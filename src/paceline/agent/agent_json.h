#pragma once

// What an agent leaves in its node's folder for whoever looks or comes after;
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

// Null when there is no such file or it is not JSON.
nlohmann::json ReadJson(const std::string& path);

// agent.json: who keeps this node, and how far. `has_left`: it was told to, and is about to exit.
void SaveAgentJson(const AgentSetup& setup, Generation generation, uint32_t restart_count,
                   bool has_left);
// Whether the agent that was `pid` left as it was told.
bool HasLeft(const AgentFiles& files, pid_t pid);

// An agent that was refused for good. Its ranks end where another node has their place, or where
// their job is gone.
core::MasterRefused RefusedBy(const wire::Refusal& refusal, Duration stop_grace);
// problem.json: why the master would not have this agent.
void SaveProblem(const AgentFiles& files, const wire::Refusal& refusal);
// What kept an agent before this one from its work is over.
void ForgetProblem(const AgentFiles& files);

}  // namespace paceline::agent
