#include "paceline/plan/explain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

// Stages end together if the fastest takes at least this part of the slowest one's time.
constexpr double kTogether = 0.9;

std::string Rounded(double number, const char* unit) {
  char text[64];
  const int digits = number < 10 ? 2 : number < 100 ? 1 : 0;
  std::snprintf(text, sizeof(text), "%.*f %s", digits, number, unit);
  return text;
}

// A rank of the scene's own plans.
uint32_t TypeOfRank(const Scene& scene, uint32_t rank) {
  for (uint32_t type = 0; type < scene.ranks.size(); ++type) {
    if (std::binary_search(scene.ranks[type].begin(), scene.ranks[type].end(), rank)) return type;
  }
  return 0;
}

const std::string& NameOfRank(const Scene& scene, uint32_t rank) {
  return scene.cluster.types[TypeOfRank(scene, rank)].name;
}

// "H100-80G 170, A100-80G 85 or 86": samples of a replica of each type.
std::string SharesText(const Scene& scene, const ParallelPlan& plan) {
  struct Shares {
    std::string type;
    uint64_t least = 0;
    uint64_t most = 0;
  };
  std::vector<Shares> shares;
  for (size_t i = 0; i < plan.shares.size(); ++i) {
    const std::string& type = NameOfRank(scene, plan.stages[0].ranks[i * plan.tensor]);
    const auto known = std::find_if(shares.begin(), shares.end(),
                                    [&](const auto& one) { return one.type == type; });
    if (known == shares.end()) {
      shares.push_back({type, plan.shares[i], plan.shares[i]});
    } else {
      known->least = std::min(known->least, plan.shares[i]);
      known->most = std::max(known->most, plan.shares[i]);
    }
  }
  std::vector<std::string> words;
  for (const auto& [type, least, most] : shares) {
    const std::string_view between = most == least + 1 ? " or " : " to ";
    words.push_back(least == most ? Concat(type, " ", most)
                                  : Concat(type, " ", least, between, most));
  }
  return JoinWith(words, ", ");
}

// "20 layers on H100-80G, 12 on A100-80G", and "3, 4, 4, 3 layers" if all are of one type.
std::string StagesText(const Scene& scene, const ParallelPlan& plan) {
  const auto name_of = [&](const PlanStage& stage) { return NameOfRank(scene, stage.ranks[0]); };
  const bool are_alike = std::all_of(
      plan.stages.begin(), plan.stages.end(),
      [&](const PlanStage& stage) { return name_of(stage) == name_of(plan.stages.front()); });
  std::vector<std::string> words;
  for (const PlanStage& stage : plan.stages) {
    const uint32_t layers = LayersOf(stage);
    words.push_back(words.empty() && !are_alike ? Counted(layers, "layer")
                                                : std::to_string(layers));
    if (!are_alike) words.back() += " on " + name_of(stage);
  }
  if (are_alike) {
    constexpr size_t kShown = 16;
    const size_t more = words.size() > kShown ? words.size() - kShown : 0;
    words.resize(words.size() - more);
    return Concat(JoinWith(words, ", "), " layers",
                  more > 0 ? Concat(" and ", more, " more stages") : "");
  }
  if (words.size() > 8) {
    const size_t left = words.size() - 7;
    words.resize(7);
    words.push_back(Concat(left, " more stages"));
  }
  return JoinWith(words, ", ");
}

// How the work is divided over the stages, as a sentence that is true for any cut.
std::string CutText(const Scene& scene, const ParallelPlan& plan) {
  const std::string stages = StagesText(scene, plan);
  if (plan.micro_batches == 1) {
    return Concat("its stages work one after the other, with ", stages);
  }
  const Shape shape = ShapeOf(plan);
  if (shape.virtual_stages > 1) {
    return Concat("its stages take turns on ", shape.virtual_stages, " chunks each, with ", stages);
  }
  std::vector<double> passes;
  for (const PlanStage& stage : plan.stages) {
    const uint32_t type = TypeOfRank(scene, stage.ranks[0]);
    passes.push_back(CostOfStage(scene, shape, {stage.begin, stage.end, type}).pass);
  }
  const auto [least, most] = std::minmax_element(passes.begin(), passes.end());
  if (*least >= kTogether * *most) return Concat("its stages end together with ", stages);
  return Concat("its stages have ", stages, ", and stage ", most - passes.begin(),
                " takes the longest");
}

}  // namespace

std::string SecondsText(double seconds) {
  if (!std::isfinite(seconds)) return "for ever";
  if (seconds >= 1) return Rounded(seconds, "s");
  if (seconds >= 1e-3) return Rounded(seconds * 1e3, "ms");
  return Rounded(seconds * 1e6, "µs");
}

std::string PercentText(double ratio) {
  return Concat(static_cast<int64_t>(std::llround(100 * ratio)), " %");
}

std::string MemoryText(double bytes) {
  constexpr double kMebi = 1024.0 * 1024;
  if (bytes < 1024 * kMebi) return Rounded(bytes / kMebi, "MiB");
  return Rounded(bytes / (1024 * kMebi), "GiB");
}

std::string ParametersText(uint64_t parameters) {
  if (parameters < 100'000) return Counted(parameters, "parameter");
  const bool is_large = parameters >= 1'000'000'000;
  const uint64_t hundredths = parameters / (is_large ? 10'000'000 : 10'000);
  const std::string cents = std::to_string(hundredths % 100);
  return Concat(hundredths / 100, ".", cents.size() == 1 ? "0" : "", cents,
                is_large ? " billion" : " million", " parameters");
}

uint32_t ChunksOf(const ParallelPlan& plan) {
  return plan.stages.empty() ? 1 : static_cast<uint32_t>(1 + plan.stages[0].later.size());
}

uint32_t LayersOf(const PlanStage& stage) {
  uint32_t layers = stage.end - stage.begin;
  for (const LayerRange& chunk : stage.later) layers += chunk.end - chunk.begin;
  return layers;
}

Shape ShapeOf(const ParallelPlan& plan) {
  return {.pipeline = static_cast<uint32_t>(plan.stages.size()),
          .tensor = plan.tensor,
          .sequence = plan.sequence,
          .data = plan.data,
          .micro_batches = plan.micro_batches,
          .virtual_stages = ChunksOf(plan),
          .shard = plan.shard,
          .recompute = static_cast<uint32_t>(plan.recompute),
          .schedule = FindSchedule(plan.schedule).value_or(0)};
}

std::string WordsOf(const ParallelPlan& plan) { return WordsOf(ShapeOf(plan)); }

std::string BecauseOf(const Scene& scene, const ParallelPlan& best, double equal_shares,
                      const ParallelPlan* next) {
  std::string text;
  if (best.stages.size() > 1) {
    text = CutText(scene, best);
  } else if (equal_shares > 0) {
    text = Concat("its replicas end together with shares of ", SharesText(scene, best),
                  " samples; with equal shares a step would take ", SecondsText(equal_shares));
  } else if (best.data > 1) {
    text = Concat("its replicas are alike and take ", SharesText(scene, best), " samples each");
  } else {
    text =
        best.tensor > 1 ? Concat(best.tensor, " devices share each layer") : "one device does it";
  }
  if (!best.unused.empty()) {
    Append(&text, "; with the other ", Counted(best.unused.size(), "device"), " it is no faster");
  }
  if (next == nullptr) return text + "; nothing else fits";
  const double ratio = next->predicted.step / best.predicted.step - 1;
  return Concat(text, "; the next best, ", WordsOf(*next), ", takes ",
                ratio < 0.005 ? "as long" : PercentText(ratio) + " longer");
}

std::string SlowerBecause(const ParallelPlan& other, const ParallelPlan& best) {
  const PlanCost& mine = other.predicted;
  const PlanCost& its = best.predicted;
  struct Part {
    const char* name;
    double more;
  };
  Part parts[] = {{"communication that is not hidden", mine.communication - its.communication},
                  {"waiting", mine.bubble - its.bubble},
                  {"computing", mine.compute - its.compute}};
  const Part& most =
      *std::max_element(std::begin(parts), std::end(parts),
                        [](const Part& a, const Part& b) { return a.more < b.more; });
  if (!(most.more > 0)) return "it is as fast";
  return Concat(SecondsText(most.more), " more of ", most.name);
}

std::string WithoutWishes(const ParallelPlan& best, const std::vector<std::string_view>& axes,
                          const ParallelPlan& free) {
  // It may be longer: some axes are searched only if they are asked for.
  const double more = free.predicted.step / best.predicted.step - 1;
  const std::string how = std::abs(more) < 0.005 ? "as long"
                          : more > 0             ? PercentText(more) + " longer"
                                                 : PercentText(-more) + " less";
  return Concat("; without the wish for ", JoinWith(axes, " and "), ", ", WordsOf(free),
                " would take ", how);
}

}  // namespace paceline::plan
