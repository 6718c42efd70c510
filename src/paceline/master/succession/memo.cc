#include "paceline/master/succession/memo.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "paceline/base/check.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/log.h"
#include "paceline/wire/messages.h"

namespace paceline::master {
namespace {

uint32_t Count(const nlohmann::json& from, const char* key) {
  return static_cast<uint32_t>(
      std::clamp<int64_t>(JsonInt<int64_t>(from, key), 0, std::numeric_limits<int32_t>::max()));
}

std::string Text(const nlohmann::json& from, const char* key) {
  return JsonText(from, key).substr(0, core::Memo::kTextMax);
}

}  // namespace

std::string MemoText(const core::Memo& memo) {
  if (memo == core::Memo()) return "";
  nlohmann::json to = {{"charged_failures", memo.charged_failures},
                       {"failures_without_progress", memo.failures_without_progress},
                       {"same_failure_count", memo.same_failure_count},
                       {"last_failure_step", memo.last_failure_step},
                       {"step_max", memo.step_max},
                       {"worlds", memo.worlds}};
  for (const auto& [index, times] : memo.replaced) to["replaced"][std::to_string(index)] = times;
  if (memo.chosen_nodes > 0) to["chosen_nodes"] = memo.chosen_nodes;
  if (memo.is_size_measured) to["is_size_measured"] = true;
  if (memo.exit_code.has_value()) to["exit_code"] = *memo.exit_code;
  for (const std::string& host : memo.excluded) {
    nlohmann::json more = to;
    more["excluded"].push_back(host);
    if (PrintJson(more).size() <= wire::kMemoBytesMax) to = std::move(more);
  }
  // Texts are added last, and one that exceeds the limit is left out: escapes can make a text
  // several times as long.
  const auto add = [&to](const char* key, const std::string& text) {
    if (text.empty()) return;
    to[key] = text;
    if (PrintJson(to).size() > wire::kMemoBytesMax) to.erase(key);
  };
  add("last_fingerprint", memo.last_fingerprint);
  add("final_reason", memo.final_reason);
  add("last_headline", memo.last_headline);
  std::string text = PrintJson(to);
  CHECK(text.size() <= wire::kMemoBytesMax, "a memo's numbers fit");
  return text;
}

std::optional<core::Memo> ReadMemo(const std::string& text) {
  if (text.empty() || text.size() > wire::kMemoBytesMax) return std::nullopt;
  const nlohmann::json from = ParseJson(text);
  if (!from.is_object()) {
    LogWarning("memo_unreadable", {{"bytes", text.size()}});
    return std::nullopt;
  }
  core::Memo memo{.charged_failures = Count(from, "charged_failures"),
                  .failures_without_progress = Count(from, "failures_without_progress"),
                  .same_failure_count = Count(from, "same_failure_count"),
                  .last_fingerprint = Text(from, "last_fingerprint"),
                  .last_headline = Text(from, "last_headline"),
                  .last_failure_step = JsonInt<int64_t>(from, "last_failure_step", -1),
                  .step_max = JsonInt<int64_t>(from, "step_max", -1),
                  .worlds = Count(from, "worlds"),
                  .final_reason = Text(from, "final_reason"),
                  .chosen_nodes = Count(from, "chosen_nodes"),
                  .is_size_measured = JsonBool(from, "is_size_measured", false)};
  const auto replaced = from.find("replaced");
  if (replaced != from.end() && replaced->is_object()) {
    for (const auto& [name, times] : replaced->items()) {
      const std::optional<uint32_t> index = IndexOfNode(name);
      if (index.has_value() && memo.replaced.size() < core::Memo::kIndexesMax) {
        memo.replaced[*index] = Count(*replaced, name.c_str());
      }
    }
  }
  const auto excluded = from.find("excluded");
  if (excluded != from.end() && excluded->is_array()) {
    for (const nlohmann::json& host : *excluded) {
      if (host.is_string() && memo.excluded.size() < core::Memo::kHostsMax) {
        memo.excluded.push_back(host.get<std::string>());
      }
    }
  }
  if (from.contains("exit_code")) memo.exit_code = JsonInt<int>(from, "exit_code", 1);
  return memo;
}

}  // namespace paceline::master
