#include "paceline/cli/submit/kubernetes.h"

#include "gtest/gtest.h"

namespace paceline::cli {
namespace {

Submission Small() {
  Submission submission;
  submission.place = {.platform = "kubernetes", .space = "team", .job = "train"};
  submission.nodes_min = 6;
  submission.nodes_max = 8;
  submission.spares = 1;
  submission.image = "me/train:7";
  submission.target = "train.py";
  submission.args = {"--lr", "0.1"};
  return submission;
}

TEST(ElasticJobOf, SaysWhatWasTyped) {
  const auto job = ElasticJobOf(Small(), {});
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(*job, ParseOrderedJson(R"({"apiVersion": "paceline.dev/v1alpha1", "kind": "ElasticJob",
    "metadata": {"name": "train", "namespace": "team"},
    "spec": {"nodes": {"min": 6, "max": 8}, "spares": 1,
      "script": {"file": "train.py", "args": ["--lr", "0.1"]},
      "template": {"spec": {"containers": [{"name": "train", "image": "me/train:7"}]}}}})"));
}

TEST(ElasticJobOf, KeepsWhatTheTemplateHas) {
  Submission submission = Small();
  submission.gpus = 8;
  submission.environment = {{"A", "2"}, {"B", "3"}};
  const auto job = ElasticJobOf(submission, ParseOrderedJson(R"({"kind": "Pod",
    "metadata": {"name": "x", "labels": {"team": "red"}, "uid": "1"},
    "spec": {"nodeSelector": {"gpu": "h100"}, "containers": [
      {"name": "side", "image": "s"},
      {"name": "train", "image": "old", "env": [{"name": "A", "value": "1"}],
       "resources": {"limits": {"memory": "1Gi"}}}]}})"));
  ASSERT_TRUE(job.ok());
  const auto& pod = (*job)["spec"]["template"];
  EXPECT_EQ(PrintJson(pod["metadata"]), R"({"labels":{"team":"red"}})");
  EXPECT_EQ(pod["spec"]["nodeSelector"]["gpu"], "h100");
  const auto& train = pod["spec"]["containers"][1];
  EXPECT_EQ(train["image"], "me/train:7");
  EXPECT_EQ(PrintJson(train["env"]), R"([{"name":"A","value":"2"},{"name":"B","value":"3"}])");
  EXPECT_EQ(train["resources"]["limits"]["memory"], "1Gi");
  EXPECT_EQ(train["resources"]["limits"]["nvidia.com/gpu"], "8");
}

TEST(ElasticJobOf, RefusesATemplateThatLeavesTheScriptsContainerOpen) {
  const auto job = ElasticJobOf(
      Small(), ParseOrderedJson(R"({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}})"));
  ASSERT_FALSE(job.ok());
  EXPECT_EQ(job.problem().code, "PL-E003");
  Submission nameless = Small();
  nameless.image = "";
  EXPECT_EQ(ElasticJobOf(nameless, {}).problem().what, "the job has no image");
}

TEST(ParseOnPlace, TheFixIsOfThePlatformThatWasMeant) {
  EXPECT_EQ(ParseOnPlace("rayy", false).problem().fix, "--on kubernetes, or --on ray");
  EXPECT_EQ(ParseOnPlace("rayy/train", true).problem().fix,
            "--on kubernetes/NAMESPACE/JOB, or --on ray/JOB");
  EXPECT_EQ(ParseOnPlace("ray/a/b", true).problem().fix, "--on ray/train");
  EXPECT_EQ(ParseOnPlace("ray/Train", true).problem().fix, "--on ray/train");
}

TEST(ParseOnPlace, TakesANamespaceOrLeavesItToKubectl) {
  EXPECT_EQ(ParseOnPlace("kubernetes/team/train", true)->space, "team");
  EXPECT_EQ(ParseOnPlace("kubernetes/train", true)->job, "train");
  EXPECT_EQ(ParseOnPlace("kubernetes/train", true)->space, "");
  EXPECT_EQ(ParseOnPlace("kubernetes/team", false)->space, "team");
  for (const char* wrong :
       {"", "slurm/x/y", "kubernetes", "kubernetes//x", "kubernetes/a/b/c", "kubernetes/--all/x"}) {
    EXPECT_FALSE(ParseOnPlace(wrong, true).ok()) << wrong;
  }
}

}  // namespace
}  // namespace paceline::cli
