#include "paceline/cli/run/resume_note.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/flags/torchrun_flags.h"

namespace paceline::cli {
namespace {

// Flags of `paceline run` that a resumed job obeys. All other ones are in its spec.json already.
constexpr std::string_view kObeyed[] = {
    "run_dir",    "resume",    "detach", "passthrough_exit",  "incarnation",     "credentials",
    "ckpt_every", "ckpt_keep", "plan",   "signals_to_handle", "print_completion"};
// Those of them that the first command set for the whole job. spec.json has the settings of master
// and agents; these act in the launcher, or reach the ranks by its environment.
constexpr std::string_view kKept[] = {"ckpt_every", "ckpt_keep", "plan", "passthrough_exit",
                                      "signals_to_handle"};
constexpr size_t kNamedMax = 400;

bool IsObeyed(const Flag& flag) {
  const FlagTable global = GlobalFlags();
  return !flag.without_effect.empty() ||
         std::find(std::begin(kObeyed), std::end(kObeyed), flag.dest) != std::end(kObeyed) ||
         std::any_of(global.begin(), global.end(),
                     [&](const Flag& one) { return one.dest == flag.dest; });
}

// The value of --join is a secret.
std::string AsTyped(const Given& given) {
  const std::string name(given.flag->spellings[0]);
  const bool has_value = given.flag->kind != FlagKind::kSwitch && given.flag->dest != "join";
  return has_value ? Concat(name, " ", ShellWord(given.value)) : name;
}

}  // namespace

ParsedLine WithFirstFlags(ParsedLine line, const std::vector<std::string>& first,
                          const std::string& cwd) {
  const auto before = ParseRunLine(first);
  if (!before.ok()) return line;
  for (const std::string_view dest : kKept) {
    const Given* then = before->Find(dest);
    if (then == nullptr || line.Has(dest)) continue;
    Given kept = *then;
    const bool is_file = dest == "plan" && kept.value != "auto" && !kept.value.starts_with("/");
    if (is_file) kept.value = Concat(cwd, "/", kept.value);
    line.given.push_back(std::move(kept));
  }
  return line;
}

std::string IgnoredByResume(const ParsedLine& line, const std::vector<std::string>& first) {
  const auto before = ParseRunLine(first);
  if (!before.ok()) return "";
  std::vector<std::string> ignored;
  for (const Given& given : line.given) {
    const Given* then = before->Find(given.flag->dest);
    const bool is_same = then != nullptr && then->value == given.value;
    if (!is_same && !IsObeyed(*given.flag)) ignored.push_back(AsTyped(given));
  }
  if (!line.positionals.empty() && line.positionals != before->positionals) {
    std::vector<std::string> words;
    for (const std::string& word : line.positionals) words.push_back(ShellWord(word));
    ignored.push_back(JoinWith(words, " "));
  }
  if (ignored.empty()) return "";
  return Concat("--resume goes on with the job's first command and ignores: ",
                Clip(Visible(JoinWith(ignored, ", ")), kNamedMax),
                ". To begin with that, leave --resume out and name another --run-dir.");
}

}  // namespace paceline::cli
