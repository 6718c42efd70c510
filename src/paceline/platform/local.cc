#include "paceline/platform/local.h"

#include <utility>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline::platform {

absl::StatusOr<SpawnedProcess> LocalPlatform::Start(std::vector<std::string> words,
                                                    const std::string& log_path,
                                                    int passed_fd) const {
  SpawnRequest request;
  request.passed_fd = passed_fd;
  request.argv = {binary};
  for (std::string& word : words) request.argv.push_back(std::move(word));
  for (std::string& entry : CurrentEnvironment()) {
    if (!entry.starts_with("PACELINE_JOB_ID=")) request.env.push_back(std::move(entry));
  }
  // All processes of a job have this variable, so that left-over ones can be found by it.
  request.env.push_back(Concat("PACELINE_JOB_ID=", job_id));
  request.output_path = log_path;
  return SpawnDetached(request);
}

absl::StatusOr<SpawnedProcess> LocalPlatform::StartMaster(const MasterWords& said,
                                                          int ready_fd) const {
  std::vector<std::string> words = {"master",    "--run-dir",  run_dir, "--listen",
                                    said.listen, "--ready-fd", "3"};
  if (said.insecure) words.push_back("--insecure");
  if (said.resumes) words.push_back("--resumes");
  if (said.term > 0) {
    words.insert(words.end(), {"--term", std::to_string(said.term), "--survivors",
                               std::to_string(said.survivors)});
    if (!said.memo.empty()) words.insert(words.end(), {"--memo", said.memo});
  }
  return Start(std::move(words), Concat(run_dir, "/logs/master.log"), ready_fd);
}

absl::StatusOr<SpawnedProcess> LocalPlatform::StartAgent(const std::string& node,
                                                         uint32_t incarnation) const {
  const std::string log_dir = Concat(run_dir, "/logs/", node);
  if (absl::Status made = MakeDirs(log_dir, 0700); !made.ok()) return made;
  return Start({"agent", "--run-dir", run_dir, "--node", node, "--incarnation",
                std::to_string(incarnation), "--runtime-dir", runtime_dir},
               Concat(log_dir, "/agent.log"));
}

}  // namespace paceline::platform
