#include "paceline/agent/agent_json.h"

#include <unistd.h>

#include "paceline/agent/pids.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/log.h"

namespace paceline::agent {

void SaveAgentJson(const AgentSetup& setup, Generation generation, uint32_t restart_count) {
  const nlohmann::json text = {
      {"schema", "paceline.agent/1"},          {"pid", ::getpid()},
      {"start_time", StartTimeOf(::getpid())}, {"boot_id", setup.identity.boot_id},
      {"incarnation", setup.incarnation},      {"generation", generation.value()},
      {"restart_count", restart_count}};
  const absl::Status saved = ReplaceFile(setup.files.AgentJson(), PrintJson(text), 0600);
  if (!saved.ok()) LogWarning("agent_json", {{"why", saved}});
}

void SaveProblem(const AgentFiles& files, const wire::Refusal& refusal) {
  const nlohmann::json problem = {{"schema", "paceline.error/1"}, {"code", refusal.code},
                                  {"message", refusal.what},      {"cause", refusal.why},
                                  {"where", files.node},          {"fix", refusal.fix}};
  ReplaceFile(files.ProblemJson(), PrintJson(problem), 0600).IgnoreError();
}

void ForgetProblem(const AgentFiles& files) { ::unlink(files.ProblemJson().c_str()); }

}  // namespace paceline::agent
