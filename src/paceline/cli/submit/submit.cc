// `paceline submit`: a job for a cluster.

#include "paceline/cli/submit/submit.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

using enum FlagKind;

constexpr Flag kSubmitFlags[] = {
    {.dest = "on",
     .spellings = {"--on"},
     .metavar = "PLACE",
     .help = "kubernetes, kubernetes/NAMESPACE, or ray"},
    {.dest = "image",
     .spellings = {"--image"},
     .metavar = "IMAGE",
     .help = "container image with Python, paceline and the script"},
    {.dest = "nodes",
     .spellings = {"--nodes", "--nnodes"},
     .metavar = "N|MIN:MAX",
     .help = "nodes that train"},
    {.dest = "spares",
     .spellings = {"--spares"},
     .kind = kInteger,
     .metavar = "K",
     .help = "K more nodes that wait, joined and warm, to replace a lost one"},
    {.dest = "nproc_per_node",
     .spellings = {"--nproc-per-node", "--nproc_per_node"},
     .kind = kInteger,
     .metavar = "N",
     .help = "ranks a node; its GPUs by default, 1 without"},
    {.dest = "gpus",
     .spellings = {"--gpus"},
     .kind = kInteger,
     .metavar = "N",
     .help = "GPUs a node (nvidia.com/gpu)"},
    {.dest = "cpus",
     .spellings = {"--cpus"},
     .metavar = "N",
     .help = "CPUs a node, as Kubernetes writes them: 8, 500m"},
    {.dest = "memory",
     .spellings = {"--memory"},
     .metavar = "SIZE",
     .help = "memory a node, as Kubernetes writes it: 64Gi"},
    {.dest = "env",
     .spellings = {"--env"},
     .metavar = "NAME=VALUE",
     .help = "a variable of the ranks; may be given again"},
    {.dest = "template",
     .spellings = {"--template"},
     .metavar = "FILE",
     .help = "pod template: volumes, node selector, tolerations, sidecars; its container `train` "
             "runs the script"},
    {.dest = "ray",
     .spellings = {"--ray"},
     .metavar = "ADDRESS",
     .help = "of the Ray cluster; by default RAY_ADDRESS, or the cluster of this host"},
    {.dest = "working_dir",
     .spellings = {"--working-dir"},
     .metavar = "DIR",
     .help = "directory that Ray brings to each node; the script's path is relative to it"},
    {.dest = "run_flag",
     .spellings = {"--run-flag"},
     .metavar = "WORD",
     .help = "a word of spec.flags, which are flags of paceline run; may be given again: "
             "--run-flag=--ckpt-every=30s"},
    {.dest = "name",
     .spellings = {"--name"},
     .metavar = "NAME",
     .help = "name of the job, at most 40 of a-z, 0-9 and -, with a letter in front; the script's "
             "by default"},
    {.dest = "ttl",
     .spellings = {"--ttl"},
     .kind = kDuration,
     .metavar = "TIME",
     .help = "delete the job and its pods that long after its end; never by default"},
    {.dest = "module",
     .spellings = {"-m", "--module"},
     .kind = kSwitch,
     .help = "the script is a module"},
    {.dest = "print",
     .spellings = {"--print"},
     .kind = kSwitch,
     .help = "only print what would be submitted"},
};

// A DNS label, as the names of a cluster's objects have to be.
std::string LabelOf(const std::string& script) {
  std::string name = script.substr(script.rfind('/') + 1);
  if (const size_t dot = name.rfind(".py"); dot != std::string::npos) name.resize(dot);
  std::string label;
  for (const unsigned char c : name) {
    label += std::isalnum(c) ? static_cast<char>(std::tolower(c)) : '-';
  }
  constexpr size_t kNameMax = 40;
  label.resize(std::min(label.size(), kNameMax));
  while (!label.empty() && label.back() == '-') label.pop_back();
  while (!label.empty() && !std::isalpha(static_cast<unsigned char>(label.front()))) {
    label.erase(0, 1);
  }
  return label.empty() ? "train" : label;
}

Problem BadValue(const std::string& flag, const std::string& value, const std::string& want) {
  return {.code = "PL-E003",
          .what = Concat(flag, " cannot be \"", Visible(value), "\""),
          .where = "the command line",
          .why = Concat("it is ", want),
          .fix = "paceline submit --help"};
}

// Checks a number here, because the error of the cluster's API would not name the flag.
Check TakeCount(const ParsedLine& line, std::string_view dest, uint32_t minimum, uint32_t maximum,
                uint32_t* to) {
  const Given* given = line.Find(dest);
  if (given == nullptr) return std::nullopt;
  const int64_t value = ParseInteger(given->value).value_or(-1);
  if (value < minimum || value > maximum) {
    return BadValue(std::string(given->flag->spellings[0]), given->value,
                    Concat("a number from ", minimum, " to ", maximum));
  }
  *to = static_cast<uint32_t>(value);
  return std::nullopt;
}

// Flags after the script belong to the script, so `--on` there is a mistake.
Problem OnIsMissing(const Submission& submission) {
  const std::vector<std::string>& args = submission.args;
  const bool is_behind = std::find(args.begin(), args.end(), "--on") != args.end();
  return {.code = "PL-E003",
          .what = "--on PLACE is missing",
          .where = "the command line",
          .why = is_behind ? "it stands behind the script, so it is the script's"
                           : "it says on which cluster the job runs",
          .fix = Concat("paceline submit --on kubernetes … ", ShellWord(submission.target))};
}

Check TakeNodes(const std::string& text, Submission* to) {
  const auto range = ParseNodeRange(text);
  if (!range) {
    return BadValue("--nodes", text,
                    "a number of nodes, or MIN:MAX with 1 <= MIN <= MAX <= 100000");
  }
  to->nodes_min = range->min;
  to->nodes_max = range->max;
  return std::nullopt;
}

Check TakeEnvironment(const ParsedLine& line, Submission* to) {
  for (const Given& given : line.given) {
    if (given.flag->dest != "env") continue;
    const size_t equals = given.value.find('=');
    const std::string name = given.value.substr(0, equals);
    const bool is_name = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '.' || c == '-';
    });
    if (equals == std::string::npos || equals == 0 || !is_name || std::isdigit(name.front())) {
      return BadValue("--env", given.value, "NAME=VALUE, the name of A-Z a-z 0-9 _ . -");
    }
    to->environment.emplace_back(given.value.substr(0, equals), given.value.substr(equals + 1));
  }
  return std::nullopt;
}

Check TakeCounts(const ParsedLine& line, Submission* to) {
  constexpr uint32_t kSparesMax = 1000;
  constexpr uint32_t kRanksMax = 1024;
  if (Check problem = TakeCount(line, "spares", 0, kSparesMax, &to->spares)) return problem;
  if (Check problem = TakeCount(line, "gpus", 0, kRanksMax, &to->gpus)) return problem;
  if (!line.Has("nproc_per_node")) return std::nullopt;
  return TakeCount(line, "nproc_per_node", 1, kRanksMax, &to->nproc_per_node.emplace());
}

// An amount as Kubernetes writes it: 8, 0.5, 500m, 64Gi.
bool IsQuantity(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view unit = digits == std::string_view::npos ? "" : text.substr(digits);
  constexpr std::string_view kUnits[] = {"",  "m",  "k",  "M",  "G",  "T",  "P",
                                         "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  const std::string_view number = text.substr(0, digits);
  const bool has_number = text.find_first_of("0123456789") == 0 &&
                          number.find('.') == number.rfind('.') && number.back() != '.';
  return has_number && std::find(std::begin(kUnits), std::end(kUnits), unit) != std::end(kUnits);
}

// Refuses texts for which the cluster would refuse the job's object.
Check CheckTexts(const Submission& submission) {
  for (const auto& [flag, value] :
       {std::pair("--cpus", submission.cpus), std::pair("--memory", submission.memory)}) {
    if (!value.empty() && !IsQuantity(value)) {
      return BadValue(flag, value, "an amount as Kubernetes writes it: 8, 500m, 64Gi");
    }
  }
  const bool is_image = std::all_of(
      submission.image.begin(), submission.image.end(),
      [](unsigned char c) { return std::isalnum(c) || std::strchr("._-/:@", c) != nullptr; });
  if (is_image) return std::nullopt;
  return BadValue("--image", submission.image, "a container image: REGISTRY/NAME:TAG");
}

Result<Submission> SubmissionOf(const ParsedLine& line) {
  Submission submission;
  if (line.positionals.empty()) {
    return Problem{.code = "PL-E007",
                   .what = "no script was given",
                   .where = "the command line",
                   .why =
                       "flags come first, then the script as the image has it, then its "
                       "arguments",
                   .fix = "paceline submit --on kubernetes --image me/train:7 train.py"};
  }
  submission.target = line.positionals.front();
  submission.args.assign(line.positionals.begin() + 1, line.positionals.end());
  if (!line.Has("on")) return OnIsMissing(submission);
  auto place = ParseOnPlace(line.Text("on"), /*has_job=*/false);
  if (!place.ok()) return place.problem();
  submission.place = *place;
  submission.is_module = line.Has("module");
  submission.place.job = line.Has("name") ? line.Text("name") : LabelOf(submission.target);
  if (LabelOf(submission.place.job) != submission.place.job) {
    return BadValue("--name", submission.place.job,
                    "at most 40 of a-z, 0-9 and -, with a letter in front");
  }
  if (line.Has("nodes")) {
    if (Check problem = TakeNodes(line.Text("nodes"), &submission)) return *problem;
  }
  if (Check problem = TakeEnvironment(line, &submission)) return *problem;
  if (Check problem = TakeCounts(line, &submission)) return *problem;
  for (const Given& given : line.given) {
    if (given.flag->dest == "run_flag") submission.run_flags.push_back(given.value);
  }
  submission.image = line.Text("image");
  submission.cpus = line.Text("cpus");
  submission.memory = line.Text("memory");
  if (Check problem = CheckTexts(submission)) return *problem;
  submission.template_path = line.Text("template");
  submission.ray_address = line.Text("ray");
  submission.working_dir = line.Text("working_dir");
  submission.only_prints = line.Has("print");
  if (line.Has("ttl")) {
    const int64_t ttl = ParseDuration(line.Text("ttl"))->nanoseconds() / 1'000'000'000;
    if (ttl > INT32_MAX) return BadValue("--ttl", line.Text("ttl"), "a time of at most 68 years");
    submission.ttl_seconds = static_cast<uint32_t>(ttl);
  }
  return submission;
}

}  // namespace

FlagTable SubmitFlags() { return kSubmitFlags; }

int RunSubmit(Invocation& invocation) {
  auto submission = SubmissionOf(invocation.line);
  if (!submission.ok()) return invocation.out.Fail(submission.problem());
  return FindPlatform(submission->place.platform)
      ->submit(*submission, invocation.environment, invocation.out);
}

}  // namespace paceline::cli
