#include "paceline/cli/submit/elastic_job.h"

#include "gtest/gtest.h"
#include "paceline/cli/submit/kubectl.h"
#include "paceline/cli/submit/pod_logs.h"

namespace paceline::cli {
namespace {

ElasticJobSeen SeenIn(const std::string& status) {
  return ReadElasticJob(ParseJson(R"({"status": )" + status + "}"));
}

TEST(ElasticJob, GivesTheExitCodeOfAJobThatHasEnded) {
  const ElasticJobSeen job = SeenIn(R"({"state": "Failed", "exitCode": 7, "step": "40",
    "finishedAt": "2026-01-02T03:04:05Z", "last": "node1 left: its time is over",
    "conditions": [{"type": "Running", "status": "False", "message": "The job has ended."},
                   {"type": "Failed", "status": "True", "message": "the script fails"}]})");
  EXPECT_TRUE(job.has_ended);
  EXPECT_EQ(job.exit_code, 7);
  EXPECT_EQ(job.end_reason, "the script fails") << "an old failure is no reason of the end";
  const wire::JobStatus status = PlainStatusOf(job, "train");
  EXPECT_EQ(status.phase, "finished");
  EXPECT_EQ(status.exit_code, 7);
  EXPECT_EQ(status.step, 40);
}

TEST(ElasticJob, SaysWhyItsMasterDoesNotRun) {
  const ElasticJobSeen job = SeenIn(R"({"state": "Starting", "masterTerm": 1, "conditions": [
    {"type": "MasterReady", "status": "False", "message": "ImagePullBackOff: me/trian"}]})");
  EXPECT_FALSE(job.has_ended);
  EXPECT_EQ(job.wait_reason, "ImagePullBackOff: me/trian");
  EXPECT_EQ(PlainStatusOf(job, "train").phase, "waiting");
}

TEST(ElasticJob, FieldsOfAnotherTypeAreMissing) {
  for (const char* status : {"3", "[]", R"({"state": 1, "exitCode": "0", "conditions": [1, {}],
                                           "seen": {"below": "x", "incarnations": [2]}})",
                             R"({"seen": 4, "step": {}, "conditions": {"type": "Failed"}})"}) {
    EXPECT_FALSE(SeenIn(status).has_ended) << status;
    EXPECT_EQ(SeenIn(status).exit_code, std::nullopt) << status;
  }
  EXPECT_EQ(ReadElasticJob(ParseJson("null")).master_term, 0);
}

TEST(ElasticJob, WithoutAHistoryItsPlaceHasTheEnd) {
  ElasticJobSeen job;
  job.has_ended = true;
  job.exit_code = 1;
  job.history = "not base64";
  const JobPlace place = KeptPlaceOf(job, "kubernetes/team/train", "train");
  EXPECT_EQ(place.kept->status.exit_code, 1);
  EXPECT_EQ(NamedByFlag(place), "--on kubernetes/team/train");
}

TEST(PodLogs, NameThePodsThatAreGone) {
  const ElasticJobSeen job =
      SeenIn(R"({"seen": {"below": 3, "incarnations": {"1": 2, "bad": 1}}})");
  const auto pods = NodePodsIn(ParseJson(R"({"items": [
    {"metadata": {"name": "train-node1-2"}}, {"metadata": {"name": "train-node0-0"}},
    {"metadata": {"name": "train-nodeX-1"}}, {"metadata": 3}, 7]})"),
                               "train");
  ASSERT_EQ(pods.size(), 2u);
  EXPECT_EQ(pods[0].pod, "train-node0-0");
  EXPECT_EQ(GonePods(job, pods, "train"), (std::vector<std::string>{"train-node2-0"}));
}

TEST(PodLogs, ChooseTheLinesOfARank) {
  const std::string_view log = "job train-1\nnode0:0| a\nnode0:1| b | c:1|\nnode0:0| d:1|\n";
  EXPECT_EQ(LinesOfRank(log, 1, 10), (std::vector<std::string_view>{"node0:1| b | c:1|"}));
  EXPECT_EQ(LinesOfRank(log, -1, 1), (std::vector<std::string_view>{"node0:0| d:1|"}));
}

TEST(Kubectl, NamesTheFieldsThatAreRefused) {
  ToolResult refused{.exit_code = 1, .out = "", .err = "error: one\nerror: two\n"};
  EXPECT_EQ(WordsOf(refused), "error: two");
  refused.err =
      "The ElasticJob \"t\" is invalid: \n"
      "* spec.template.spec.tolerations: Invalid value: \"string\": must be of type array\n"
      "* spec.nodes.min: Invalid value: 0: should be greater than or equal to 1\n"
      "* <nil>: Invalid value: null: some validation rules were not checked\n";
  EXPECT_EQ(WordsOf(refused),
            "spec.template.spec.tolerations: Invalid value: \"string\": must be of type array; "
            "spec.nodes.min: Invalid value: 0: should be greater than or equal to 1");
}

TEST(Kubectl, NamesTheRightThatIsMissing) {
  EXPECT_EQ(RightMissingIn("Error from server (Forbidden): pods \"t-master-1\" is forbidden: User "
                           "\"eve\" cannot create resource \"pods/exec\" in API group \"\" in the "
                           "namespace \"ml\""),
            "create pods/exec");
  EXPECT_EQ(RightMissingIn("pods \"t\" not found"), "");
  EXPECT_EQ(RightMissingIn("pods \"t\" is forbidden: exceeded quota: q"), "");
}

}  // namespace
}  // namespace paceline::cli
