#include "paceline/cli/submit/template.h"

#include "gtest/gtest.h"
#include "paceline/base/text.h"
#include "paceline/cli/submit/kubernetes.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

Submission WithTemplate() {
  Submission submission;
  submission.place = {.platform = "kubernetes", .space = "team", .job = "train"};
  submission.image = "me/train:7";
  submission.template_path = "pod.yaml";
  submission.target = "train.py";
  submission.gpus = 1;
  submission.environment = {{"A", "1"}};
  return submission;
}

void ExpectRefused(const Json& pod, std::string_view words) {
  const auto job = ElasticJobOf(WithTemplate(), pod);
  ASSERT_FALSE(job.ok()) << PrintJson(pod);
  const Problem& problem = job.problem();
  EXPECT_EQ(problem.code, "PL-E003");
  EXPECT_EQ(problem.where, "pod.yaml");
  EXPECT_NE(problem.why.find(words), std::string::npos) << problem.why << " for " << PrintJson(pod);
  EXPECT_FALSE(problem.what.empty() || problem.fix.empty());
}

TEST(PodTemplateOf, NamesWhatIsWrong) {
  for (const auto& [text, words] : {
           std::pair(R"([])", "not exactly one object"),
           std::pair(R"(7)", "one object"),
           std::pair("two documents", "not exactly one object"),
           std::pair(R"({"kind": "Job", "spec": {"template": {"spec": {}}}})", "kind is \"Job\""),
           std::pair(R"({"kind": 7, "spec": {}})", "kind is 7"),
           std::pair(R"({"kind": "PodTemplate", "spec": {}})", "no template"),
           std::pair(R"({"kind": "Pod"})", "no spec"),
           std::pair(R"({"kind": "Pod", "spec": []})", "no spec"),
           std::pair(R"({"kind": "Pod", "spec": {"contaners": []}})", "spec has contaners"),
           std::pair(R"({"spec": {"containers": []}})", "spec.containers is missing"),
           std::pair(R"({"spec": {"containers": {"name": "train"}}})", "must be a list"),
           std::pair(R"({"spec": {"containers": ["train"]}})", "spec.containers[0] is \"train\""),
           std::pair(R"({"metadata": 1, "spec": {"containers": [{}]}})", "metadata is 1"),
           std::pair(R"({"metadata": {"labels": {"a": 1}}, "spec": {"containers": [{}]}})",
                     "metadata.labels.a is 1"),
       }) {
    ExpectRefused(ParseOrderedJson(text), words);
  }
}

// Every field that is read, with a value of each wrong type.
TEST(PodTemplateOf, NamesEachFieldOfTheWrongType) {
  struct Row {
    const char* field;
    const char* pod;  // with @ in place of the value
    bool takes_text = true;
  };
  constexpr Row kRows[] = {
      {"[1].name", R"({"spec": {"containers": [{}, {"name": @}]}})"},
      {"[0].name", R"({"spec": {"containers": [{"name": @}]}})"},
      {"[0].image", R"({"spec": {"containers": [{"name": "train", "image": @}]}})"},
      {".env[0].name", R"({"spec": {"containers": [{"env": [{"name": @}]}]}})"},
      {".env[1].value", R"({"spec": {"containers": [{"env": [{}, {"name": "B", "value": @}]}]}})"},
      {".env", R"({"spec": {"containers": [{"env": @}]}})", false},
      {".env[0]", R"({"spec": {"containers": [{"env": [@]}]}})", false},
      {".resources", R"({"spec": {"containers": [{"resources": @}]}})", false},
      {".limits", R"({"spec": {"containers": [{"resources": {"limits": @}}]}})", false},
      {".requests", R"({"spec": {"containers": [{"resources": {"requests": @}}]}})", false},
      {"labels", R"({"metadata": {"labels": @}, "spec": {"containers": [{}]}})", false},
      {"annotations.a", R"({"metadata": {"annotations": {"a": @}}, "spec": {}})"},
  };
  int tried = 0;
  for (const Row& row : kRows) {
    for (const char* value : {"true", "12", "-1", "1.5", "\"text\"", "[1]", "[{}]", "{\"a\": 1}"}) {
      const std::string_view kind(value);
      const bool is_right = row.takes_text                          ? kind.front() == '"'
                            : std::string_view(row.field) == ".env" ? kind == "[{}]"
                                                                    : kind.front() == '{';
      if (is_right || (std::string_view(row.field) == "labels" && kind.front() == '{')) continue;
      std::string pod = row.pod;
      pod.replace(pod.find('@'), 1, value);
      ExpectRefused(ParseOrderedJson(pod), row.field);
      ++tried;
    }
  }
  EXPECT_GE(tried, 80);
}

TEST(PodTemplateOf, TakesAPodTemplateAndNulls) {
  const auto job = ElasticJobOf(WithTemplate(), ParseOrderedJson(R"({"kind": "PodTemplate",
    "template": {"metadata": {"labels": null}, "spec": {"containers": [{"name": "main", "env": null,
    "resources": null, "image": null}]}}})"));
  ASSERT_TRUE(job.ok()) << job.problem().why;
  EXPECT_EQ((*job)["spec"]["template"]["spec"]["containers"][0]["name"], "train");
}

TEST(ElasticJobOf, PassesFlagsOfPacelineRun) {
  Submission submission = WithTemplate();
  submission.run_flags = {"--ckpt-every", "30s"};
  const auto job = ElasticJobOf(submission, {});
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(PrintJson((*job)["spec"]["flags"]), R"(["--ckpt-every","30s"])");
}

}  // namespace
}  // namespace paceline::cli
