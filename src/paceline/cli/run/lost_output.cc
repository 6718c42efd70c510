#include "paceline/cli/run/lost_output.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "paceline/agent/agent_json.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {

void LostOutput::Look() {
  for (const std::string& node : nodes_) {
    if (pages_.contains(node)) continue;
    auto page = agent::PageFile::Open(agent::PagePathIn(run_dir_, node));
    if (page.ok()) pages_[node] = *std::move(page);
  }
}

std::string LostOutput::Text() const {
  uint64_t lines = 0;
  for (const auto& [node, page] : pages_) {
    for (uint32_t slot = 0; slot < page->slot_count(); ++slot) {
      const std::optional<SlotReading> reading = page->Read(slot);
      if (reading.has_value()) lines += reading->lines_dropped;
    }
  }
  if (lines == 0) return "";
  return Concat("at least ", lines, lines == 1 ? " line" : " lines", " of the ranks' output ",
                lines == 1 ? "was" : "were", " dropped, because the disk of ", Visible(run_dir_),
                " was full");
}

}  // namespace paceline::cli
