#include "paceline/plan/explain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/schedule/schedule.h"

namespace paceline::plan {
namespace {

std::string Rounded(double number, const char* unit) {
  char text[64];
  const int digits = number < 10 ? 2 : number < 100 ? 1 : 0;
  std::snprintf(text, sizeof(text), "%.*f %s", digits, number, unit);
  return text;
}

std::string TypeOfRank(const Scene& scene, uint32_t rank) {
  for (size_t type = 0; type < scene.ranks.size(); ++type) {
    if (std::binary_search(scene.ranks[type].begin(), scene.ranks[type].end(), rank)) {
      return scene.cluster.types[type].name;
    }
  }
  return "?";
}

// "H100-80G 170, A100-80G 86": samples of a replica of each type; the larger number if they differ
// by one.
std::string SharesText(const Scene& scene, const ParallelPlan& plan) {
  std::vector<std::pair<std::string, uint64_t>> shares;
  for (size_t i = 0; i < plan.shares.size(); ++i) {
    const std::string type = TypeOfRank(scene, plan.stages[0].ranks[i * plan.tensor]);
    const auto known = std::find_if(shares.begin(), shares.end(),
                                    [&](const auto& one) { return one.first == type; });
    if (known == shares.end()) {
      shares.emplace_back(type, plan.shares[i]);
    } else {
      known->second = std::max(known->second, plan.shares[i]);
    }
  }
  std::vector<std::string> words;
  for (const auto& [type, share] : shares) words.push_back(Concat(type, " ", share));
  return JoinWith(words, ", ");
}

// "20 layers on H100-80G, 12 on A100-80G".
std::string StagesText(const Scene& scene, const ParallelPlan& plan) {
  std::vector<std::string> words;
  for (const PlanStage& stage : plan.stages) {
    words.push_back(Concat(stage.end - stage.begin, words.empty() ? " layers on " : " on ",
                           TypeOfRank(scene, stage.ranks[0])));
  }
  if (words.size() > 8) {
    const size_t left = words.size() - 7;
    words.resize(7);
    words.push_back(Concat(left, " more stages"));
  }
  return JoinWith(words, ", ");
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
  const bool is_large = parameters >= 1'000'000'000;
  const uint64_t hundredths = parameters / (is_large ? 10'000'000 : 10'000);
  const std::string cents = std::to_string(hundredths % 100);
  return Concat(hundredths / 100, ".", cents.size() == 1 ? "0" : "", cents,
                is_large ? " billion" : " million", " parameters");
}

std::string WordsOf(const ParallelPlan& plan) {
  Shape shape = {.pipeline = static_cast<uint32_t>(plan.stages.size()),
                 .tensor = plan.tensor,
                 .data = plan.data,
                 .micro_batches = plan.micro_batches,
                 .shard = plan.shard,
                 .recompute = plan.recompute,
                 .schedule = FindSchedule(plan.schedule).value_or(0)};
  return WordsOf(shape);
}

std::string BecauseOf(const Scene& scene, const ParallelPlan& best, double equal_shares,
                      const ParallelPlan* next) {
  std::string text;
  if (best.stages.size() > 1) {
    text = Concat("its stages end together with ", StagesText(scene, best));
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

}  // namespace paceline::plan
