#include "paceline/cli/show/node_note.h"

#include <algorithm>
#include <optional>

#include "paceline/base/instant.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/model/task.h"

namespace paceline::cli {
namespace {

constexpr Duration kNotableSilence = Duration::Seconds(1);

// "rank 1: suspected hang", "ranks 1-2: …"; "" if no rank of the node is named for one.
std::string HungText(const wire::NodeStatus& node, const std::optional<wire::HangStatus>& hang) {
  if (!hang.has_value()) return "";
  std::vector<uint32_t> hung;
  for (const wire::RankStatus& rank : node.ranks) {
    const bool is_named =
        std::find(hang->ranks.begin(), hang->ranks.end(), rank.rank) != hang->ranks.end();
    if (is_named) hung.push_back(rank.rank);
  }
  if (hung.empty()) return "";
  return Concat(hung.size() == 1 ? "rank " : "ranks ", RankRanges(hung), ": suspected hang");
}

}  // namespace

std::string RankRanges(std::vector<uint32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text.empty() ? "-" : text;
}

std::string NodeNote(const wire::NodeStatus& node, const wire::JobStatus& status) {
  const bool has_master = status.master_pid > 0;
  for (const wire::RankStatus& rank : node.ranks) {
    if (rank.exit.empty()) continue;
    return RankTitle(Rank(rank.rank)) + ": " + Visible(rank.exit);
  }
  if (const std::string hung = HungText(node, status.hang); !hung.empty()) return hung;
  if (has_master && node.connected && node.silent_for > kNotableSilence) {
    return "silent for " + ToString(node.silent_for);
  }
  return Visible(node.reason);
}

}  // namespace paceline::cli
