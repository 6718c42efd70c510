#include "paceline/cli/run/memory_limit.h"

#include <string>
#include <string_view>

#include "paceline/model/memory_unit.h"

namespace paceline::cli {
namespace {

Problem Wrong(const SettingValues& settings, std::string_view key, std::string why,
              std::string fix) {
  const SettingValue& value = settings.Get(key);
  return Problem{.code = value.origin.starts_with("-") ? "PL-E003" : "PL-E013",
                 .what = std::string(key) + " cannot be \"" + value.text + "\"",
                 .where = value.origin,
                 .why = std::move(why),
                 .fix = std::move(fix)};
}

// Less than the interpreter of one rank needs.
constexpr uint64_t kLeastLimit = uint64_t{16} << 20;

std::optional<Problem> TooSmall(const SettingValues& settings, std::string_view key,
                                uint64_t limit) {
  if (limit >= kLeastLimit) return std::nullopt;
  return Wrong(settings, key, "no rank can run in less than 16 MiB",
               "set it to what the ranks of a node may use, as 8GiB");
}

}  // namespace

std::optional<Problem> TakeMemory(const SettingValues& settings, JobSpec* spec) {
  if (settings.IsSet("memory.node")) {
    spec->memory_node = WholeUnits(settings.Size("memory.node"));
    if (auto problem = TooSmall(settings, "memory.node", spec->memory_node)) return problem;
  }
  if (!settings.IsSet("memory.most")) return std::nullopt;
  spec->memory_most = WholeUnits(settings.Size("memory.most"));
  if (auto problem = TooSmall(settings, "memory.most", spec->memory_most)) return problem;
  if (spec->memory_node == 0) {
    return Wrong(settings, "memory.most", "there is no limit to raise, as memory.node is not set",
                 "set memory.node to the limit with which the job begins, as 8GiB");
  }
  if (spec->memory_most < spec->memory_node) {
    return Wrong(settings, "memory.most",
                 "it is less than memory.node, \"" + settings.Text("memory.node") +
                     "\", with which the job begins",
                 "set memory.most to at least memory.node");
  }
  return std::nullopt;
}

}  // namespace paceline::cli
