#include "paceline/agent/agent_json.h"

#include <unistd.h>

#include "paceline/agent/ranks/pids.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/log.h"
#include "paceline/core/finish.h"
#include "paceline/model/job_file_limit.h"

namespace paceline::agent {

nlohmann::json ReadJson(const std::string& path) {
  return ParseJson(ReadText(path, kJobFileBytesMax));
}

void SaveAgentJson(const AgentSetup& setup, const AgentProgress& progress, uint32_t restart_count,
                   Leave leave) {
  const nlohmann::json text = {{"schema", "paceline.agent/1"},
                               {"pid", ::getpid()},
                               {"start_time", StartTimeOf(::getpid())},
                               {"boot_id", setup.identity.boot_id},
                               {"incarnation", setup.incarnation},
                               {"generation", progress.generation.value()},
                               {"term", progress.term},
                               {"page", setup.files.Page()},
                               {"restart_count", restart_count},
                               {"checkpoints", progress.checkpoints},
                               {"rescued", progress.rescued},
                               {"gloo_interface", setup.gloo_interface},
                               {"has_left", leave.has_left},
                               {"job_over", leave.is_job_over}};
  const absl::Status saved = ReplaceFile(setup.files.AgentJson(), PrintJson(text), 0600);
  if (!saved.ok()) LogWarning("agent_json", {{"why", saved}});
}

std::string PagePathIn(const std::string& run_dir, const std::string& node) {
  const AgentFiles files{.run_dir = run_dir, .node = node};
  const nlohmann::json text = ReadJson(files.AgentJson());
  const std::string path = text.is_object() ? JsonText(text, "page") : "";
  return path.empty() ? files.PageInRunDir() : path;
}

Leave LeaveOf(const AgentFiles& files, pid_t pid) {
  const nlohmann::json text = ReadJson(files.AgentJson());
  if (!text.is_object() || JsonInt<pid_t>(text, "pid") != pid) return {};
  return {JsonBool(text, "has_left", false), JsonBool(text, "job_over", false)};
}

core::MasterRefused RefusedBy(const wire::Refusal& refusal, Duration stop_grace) {
  if (refusal.code == "PL-E110") return {refusal.what, core::kExitFenced, Duration()};
  if (refusal.code == "PL-E049") return {refusal.what, core::kExitNotAuthorised, stop_grace};
  return {refusal.what, core::kExitNotAuthorised};
}

core::LeaveAsked RescuedLeave(Duration stop_grace) {
  return {"`paceline ckpt rescue` brings its newest step to storage", stop_grace,
          core::kExitUnreachable};
}

wire::Refusal DeniedBecause(const std::string& why) {
  return {.code = "PL-E102",
          .what = "the master does not accept this agent's token or certificate",
          .why = why,
          .fix = "use the join string or the token file of this job"};
}

wire::Refusal EndedByRescue() {
  return {.code = "PL-E030",
          .what = "the job ends here without its master",
          .why =
              "`paceline ckpt rescue` was typed, which brings the newest step in memory to "
              "storage and says how that went",
          .fix =
              "start the job again on the hosts that are left; its Checkpointer goes on from "
              "that step"};
}

void SaveProblem(const AgentFiles& files, const wire::Refusal& refusal) {
  const nlohmann::json problem = {{"schema", "paceline.error/1"}, {"code", refusal.code},
                                  {"message", refusal.what},      {"cause", refusal.why},
                                  {"where", files.node},          {"fix", refusal.fix}};
  ReplaceFile(files.ProblemJson(), PrintJson(problem), 0600).IgnoreError();
}

void ForgetProblem(const AgentFiles& files) { ::unlink(files.ProblemJson().c_str()); }

}  // namespace paceline::agent
