#include "paceline/cli/submit/kubectl.h"

#include <string_view>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

bool Says(const std::string& words, std::string_view part) {
  return words.find(part) != std::string::npos;
}

// The word behind `before`, without quotes; "" if there is none.
std::string WordBehind(const std::string& words, std::string_view before) {
  const size_t at = words.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  std::string word = words.substr(begin, words.find(' ', begin) - begin);
  std::erase(word, '"');
  return word;
}

}  // namespace

std::vector<std::string> Kubectl(const OnPlace& place, std::vector<std::string> words) {
  words.insert(words.begin(), "kubectl");
  if (!place.space.empty()) words.insert(words.begin() + 1, {"--namespace", place.space});
  return words;
}

std::string WordsOf(const ToolResult& result) {
  const std::string_view said = Trimmed(result.err.empty() ? result.out : result.err);
  // "The ElasticJob "t" is invalid:" and a line with a star for each field. The API server adds
  // such a line, without a field, on what it did not check because of the others.
  std::vector<std::string> fields;
  for (const std::string& line : Split(said, '\n')) {
    if (line.starts_with("* ") && !line.starts_with("* <nil>: Invalid value: null")) {
      fields.push_back(line.substr(2));
    }
  }
  if (!fields.empty()) return Visible(JoinWith(fields, "; "));
  return Visible(said.substr(said.rfind('\n') + 1));
}

bool IsUnreachable(const std::string& words) {
  return Says(words, "was refused") || Says(words, "connection refused") ||
         Says(words, "no such host") || Says(words, "i/o timeout") ||
         Says(words, "Unable to connect");
}

std::string RightMissingIn(const std::string& words) {
  if (!Says(words, "forbidden") && !Says(words, "Forbidden")) return "";
  const std::string verb = WordBehind(words, " cannot ");
  const std::string resource = WordBehind(words, " resource ");
  return verb.empty() || resource.empty() ? "" : Concat(verb, " ", resource);
}

std::string OnPlaceText(const OnPlace& place) {
  return Concat("kubernetes/", place.space.empty() ? "" : place.space + "/", place.job);
}

Problem Refused(const std::string& what, const OnPlace& place, const ToolResult& result) {
  Problem problem{
      .code = "PL-E046",
      .what = what,
      .where = OnPlaceText(place),
      .why = WordsOf(result),
      .fix = "kubectl get elasticjobs --all-namespaces   shows the jobs that you may see"};
  const std::string right = RightMissingIn(problem.why);
  if (IsUnreachable(problem.why)) {
    problem.fix = "kubectl config current-context   names the cluster; KUBECONFIG chooses another";
  } else if (Says(problem.why, "no matches for kind") ||
             Says(problem.why, "doesn't have a resource type") ||
             Says(problem.why, "could not find the requested resource")) {
    problem.code = "PL-E047";
    problem.fix = "docs/guides/kubernetes.md says how the operator is installed";
  } else if (!right.empty()) {
    problem.fix = Concat("ask for the right `", right, "` in the namespace");
  }
  return problem;
}

}  // namespace paceline::cli
