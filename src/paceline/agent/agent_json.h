#pragma once

// What an agent leaves in its node's folder for whoever looks or comes after;
// docs/formats/run_dir.md.

#include <cstdint>

#include "paceline/agent/agent_setup.h"
#include "paceline/model/ids.h"
#include "paceline/wire/messages.h"

namespace paceline::agent {

// agent.json: who keeps this node, and how far.
void SaveAgentJson(const AgentSetup& setup, Generation generation, uint32_t restart_count);

// problem.json: why the master would not have this agent.
void SaveProblem(const AgentFiles& files, const wire::Refusal& refusal);
// What kept an agent before this one from its work is over.
void ForgetProblem(const AgentFiles& files);

}  // namespace paceline::agent
