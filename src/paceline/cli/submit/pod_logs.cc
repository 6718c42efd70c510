#include "paceline/cli/submit/pod_logs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/submit/kubectl.h"

namespace paceline::cli {
namespace {

constexpr int64_t kPodLinesByDefault = 40;

std::string PodNameOf(const std::string& job, uint32_t index, uint32_t incarnation) {
  return Concat(job, "-node", index, "-", incarnation);
}

std::string SelectorOf(const OnPlace& place) {
  return Concat("paceline.dev/job=", place.job, ",paceline.dev/role=node");
}

// A pod's log has all streams and worlds of its ranks.
Check RefuseFilters(const ParsedLine& line) {
  for (const char* flag : {"generation", "errors"}) {
    if (!line.Has(flag)) continue;
    return Problem{.code = "PL-E010",
                   .what = Concat("--", flag, " cannot be used with --on kubernetes/…"),
                   .where = "the command line",
                   .why = "the log of a pod has both streams and all worlds of its ranks",
                   .fix = Concat("leave --", flag, " out; --node and --rank choose a part")};
  }
  return std::nullopt;
}

// Follows the pods that exist now.
int FollowPods(const OnPlace& place, Invocation& invocation) {
  const Environment& environment = invocation.environment;
  return invocation.out.Fail(
      BecomeTool(Kubectl(place, {"logs", "--follow", "--selector", SelectorOf(place), "--container",
                                 "train", "--max-log-requests", "1000", "--tail",
                                 Concat(invocation.line.Number("lines", kPodLinesByDefault))}),
                 environment));
}

// Prints the log of one pod. Returns the problem if kubectl has none to give.
Check PrintPodLog(const OnPlace& place, const NodePodName& pod, Invocation& invocation) {
  auto log = RunTool(Kubectl(place, {"logs", pod.pod, "--container", "train"}), "",
                     invocation.environment);
  if (!log.ok()) return log.problem();
  if (log->exit_code != 0) {
    return Refused(Concat("the log of the pod ", pod.pod, " cannot be read"), place, *log);
  }
  const int64_t lines_max = invocation.line.Number("lines", kPodLinesByDefault);
  for (const std::string_view line :
       LinesOfRank(log->out, invocation.line.Number("rank", -1),
                   static_cast<size_t>(std::max<int64_t>(lines_max, 0)))) {
    invocation.out.DataLine(Visible(line));
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string_view> LinesOfRank(std::string_view log, int64_t rank, size_t lines_max) {
  std::vector<std::string_view> lines;
  const std::string mark = Concat(":", rank, "|");
  for (const std::string_view line : SplitLines(log)) {
    if (rank >= 0) {
      const std::string_view head = line.substr(0, line.find('|') + 1);
      if (!head.ends_with(mark)) continue;
    }
    lines.push_back(line);
  }
  if (lines.size() > lines_max) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(lines_max));
  }
  return lines;
}

std::vector<NodePodName> NodePodsIn(const nlohmann::json& pods, const std::string& job) {
  std::vector<NodePodName> found;
  const auto items = pods.is_object() ? pods.find("items") : pods.end();
  if (items == pods.end() || !items->is_array()) return found;
  const std::string prefix = job + "-node";
  for (const nlohmann::json& item : *items) {
    const auto metadata = item.is_object() ? item.find("metadata") : item.end();
    if (metadata == item.end() || !metadata->is_object()) continue;
    const std::string name = JsonText(*metadata, "name");
    if (!name.starts_with(prefix)) continue;
    const std::vector<std::string> numbers = Split(name.substr(prefix.size()), '-');
    if (numbers.size() != 2) continue;
    const auto index = ParseWhole<uint32_t>(numbers[0]);
    const auto incarnation = ParseWhole<uint32_t>(numbers[1]);
    if (index.has_value() && incarnation.has_value()) {
      found.push_back({name, *index, *incarnation});
    }
  }
  std::sort(found.begin(), found.end(), [](const NodePodName& a, const NodePodName& b) {
    return std::tie(a.index, a.incarnation) < std::tie(b.index, b.incarnation);
  });
  return found;
}

std::vector<std::string> GonePods(const ElasticJobSeen& job, const std::vector<NodePodName>& pods,
                                  const std::string& name) {
  std::set<std::string> here;
  for (const NodePodName& pod : pods) here.insert(pod.pod);
  std::vector<std::string> gone;
  for (const auto& [index, incarnation] : job.incarnations) {
    const std::string pod = PodNameOf(name, index, incarnation);
    if (!here.contains(pod)) gone.push_back(pod);
  }
  return gone;
}

int ShowPodLogs(const OnPlace& place, const ElasticJobSeen& job, Invocation& invocation) {
  Output& out = invocation.out;
  if (const Check problem = RefuseFilters(invocation.line)) return out.Fail(*problem);
  if (invocation.line.Has("follow") && !job.has_ended) return FollowPods(place, invocation);
  auto listed =
      RunTool(Kubectl(place, {"get", "pods", "--selector", SelectorOf(place), "--output", "json"}),
              "", invocation.environment);
  if (!listed.ok()) return out.Fail(listed.problem());
  if (listed->exit_code != 0) {
    return out.Fail(Refused("the job's pods cannot be listed", place, *listed));
  }
  const std::vector<NodePodName> pods = NodePodsIn(ParseJson(listed->out), place.job);
  const std::string node = invocation.line.Text("node");
  size_t shown = 0;
  Check last;
  for (const NodePodName& pod : pods) {
    if (!node.empty() && node != Concat("node", pod.index)) continue;
    const Check problem = PrintPodLog(place, pod, invocation);
    if (problem.has_value()) {
      last = problem;
      out.Say(Concat(pod.pod, ": ", problem->why));
    } else {
      ++shown;
    }
  }
  const std::vector<std::string> gone = GonePods(job, pods, place.job);
  if (!gone.empty()) {
    out.Say(Concat("deleted, with their logs: ", JoinWith(gone, ", ")));
  }
  if (shown > 0) return kExitDone;
  if (last.has_value()) return out.Fail(*last);
  return out.Fail({.code = "PL-E048",
                   .what = "there are no logs of the job's ranks",
                   .where = OnPlaceText(place),
                   .why = gone.empty() ? "no pod of a node that matches has been made yet"
                                       : "its pods were deleted, and their logs with them",
                   .fix = "paceline why --on " + OnPlaceText(place)});
}

}  // namespace paceline::cli
