#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "paceline/cli/command.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/flags/torchrun_flags.h"

namespace paceline::cli {
namespace {

constexpr size_t kFlagColumn = 30;
constexpr size_t kWidthDefault = 80;

size_t HelpWidth(const OutputOptions& options) {
  return options.width == 0 ? kWidthDefault : std::min<size_t>(options.width, 100);
}

using Spellings = std::set<std::string_view>;

// `taken`: what an earlier table means by a spelling is what counts.
std::string Names(const Flag& flag, Spellings* taken) {
  std::string names;
  for (const std::string_view spelling : flag.spellings) {
    // The spelling with underscores is accepted and said once, above the table.
    if (spelling.empty() || spelling.find('_') != std::string_view::npos) continue;
    if (!taken->insert(spelling).second) continue;
    names += (names.empty() ? "" : ", ") + std::string(spelling);
  }
  if (!flag.metavar.empty()) names += " " + std::string(flag.metavar);
  return names;
}

std::string FlagLines(FlagTable table, size_t width, Spellings* taken) {
  std::string out;
  for (const Flag& flag : table) {
    const std::string names = Names(flag, taken);
    std::string text = Wrap(flag.help, kFlagColumn, width);
    if (Width(names) + 4 <= kFlagColumn) {
      text.replace(0, kFlagColumn, Pad("  " + names, kFlagColumn));
      out += text;
    } else {
      out += "  " + names + "\n" + text;
    }
  }
  return out;
}

}  // namespace

std::string HelpOfAll(const OutputOptions& options) {
  std::string out =
      "paceline keeps distributed training going through process, node and master failures.\n\n"
      "usage: paceline COMMAND [FLAGS] …\n\ncommands\n";
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    out += "  " + Pad(command.name, 12) + std::string(command.summary) + "\n";
  }
  Spellings taken;
  out += "\nflags of every command\n" + FlagLines(GlobalFlags(), HelpWidth(options), &taken);
  out +=
      "\nexit codes: 0 done, 1 training failed, 2 usage, 3 control plane unreachable,\n"
      "  4 not authorised, 5 findings, 10 stopped by Kubernetes' operator,\n"
      "  11 last step not in storage, 92 node taken out, 124 wait timed out, 130/143 signals\n"
      "start with: paceline run --nproc-per-node 2 train.py\n";
  return out;
}

std::string HelpOf(const Command& command, const OutputOptions& options) {
  std::string out = "usage: paceline " + std::string(command.name);
  if (!command.usage.empty()) out += " " + std::string(command.usage);
  out += "\n\n" + std::string(command.summary) + "\n";
  bool has_own = false;
  Spellings taken;
  for (const FlagTable table : TablesOf(command)) {
    if (table.data() == GlobalFlags().data()) {
      out += "\nflags of every command\n";
    } else if (table.data() == TorchrunFlags().data()) {
      out += "\ntorchrun's flags (also with underscores; PET_<NAME> gives the default)\n";
    } else if (!std::exchange(has_own, true)) {
      out += "\nflags\n";
    }
    out += FlagLines(table, HelpWidth(options), &taken);
  }
  return out;
}

}  // namespace paceline::cli
