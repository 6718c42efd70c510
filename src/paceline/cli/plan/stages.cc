#include "paceline/cli/plan/stages.h"

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/plan/explain.h"

namespace paceline::cli {
namespace {

// "0–7", "0, 2, 5", or the first few and how many.
std::string RanksText(const std::vector<uint32_t>& ranks) {
  std::string text;
  size_t parts = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (++parts > 6) return Concat(text, ", … (", ranks.size(), " in all)");
    Append(&text, text.empty() ? "" : ", ", ranks[i]);
    if (last > i) Append(&text, "–", ranks[last]);
    i = last + 1;
  }
  return text;
}

// "0–3", or of interleaved stages "0–3, 16–19" and how many more there are.
std::string LayersText(const PlanStage& stage) {
  std::string text = Concat(stage.begin, "–", stage.end - 1);
  for (size_t i = 0; i < stage.later.size(); ++i) {
    if (i == 2) return Concat(text, ", … (", stage.later.size() + 1, " chunks)");
    Append(&text, ", ", stage.later[i].begin, "–", stage.later[i].end - 1);
  }
  return text;
}

}  // namespace

void PrintStages(Output& out, const ParallelPlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"STAGE", "LAYERS", "MEMORY", "RANKS"}};
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const PlanStage& stage = plan.stages[i];
    const std::string memory = i < plan.predicted.memory.size()
                                   ? plan::MemoryText(static_cast<double>(plan.predicted.memory[i]))
                                   : "-";
    rows.push_back({std::to_string(i), LayersText(stage), memory, RanksText(stage.ranks)});
  }
  out.Rows(rows);
  if (!plan.unused.empty()) out.DataLine("unused  ranks " + RanksText(plan.unused));
}

}  // namespace paceline::cli
