// What kubectl prints of a pod template that a user wrote, as `paceline submit` reads it.

#include "paceline/cli/submit/kubernetes.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace cli = paceline::cli;
  cli::Submission submission;
  submission.place = {.platform = "kubernetes", .space = "", .job = "train"};
  submission.template_path = "pod.yaml";
  submission.target = "train.py";
  submission.gpus = 1;
  submission.memory = "1Gi";
  submission.environment = {{"A", "1"}};
  const auto pod = paceline::ParseOrderedJson(paceline::fuzz::AsText(data, size));
  const auto job = cli::ElasticJobOf(submission, pod);
  if (job.ok()) {
    paceline::fuzz::Demand(!paceline::PrintJson(*job).empty(), "the job has a text");
    return 0;
  }
  const paceline::Problem& problem = job.problem();
  paceline::fuzz::Demand(!problem.what.empty() && !problem.where.empty() && !problem.why.empty() &&
                             !problem.fix.empty(),
                         "a problem has four parts");
  return 0;
}
