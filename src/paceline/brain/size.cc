#include "paceline/brain/size.h"

#include <algorithm>
#include <cmath>

#include "paceline/base/check.h"
#include "paceline/base/text.h"

namespace paceline::brain {
namespace {

enum class View { kMean, kLeast, kMost };

double EfficiencyOf(const Throughput& speed, uint32_t from, uint32_t to, View view) {
  const Efficiency found = speed.Between(from, to);
  if (view == View::kLeast) return found.least;
  return view == View::kMost ? found.most : found.mean;
}

// The largest size of which each step up from the smallest one is worth its nodes.
uint32_t BestSize(const Throughput& speed, const SizeQuestion& question, View view) {
  uint32_t best = question.sizes.front();
  for (const uint32_t size : question.sizes) {
    if (size == best) continue;
    if (EfficiencyOf(speed, best, size, view) < question.efficiency_least) break;
    best = size;
  }
  return best;
}

// A change from `now` to `to` gains node-seconds, or seconds of the job, well above its cost.
bool IsWorth(const SizeQuestion& question, uint32_t to, double step_now, double step_then) {
  const double outlook = std::min(question.outlook, kOutlookMax).ToSecondsF();
  const double cost = kGainLeast * question.change_cost.ToSecondsF();
  const double slower = step_then / step_now;
  if (to > question.now) return outlook * (1 - slower) > cost;
  const double now = question.now;
  return outlook * (now - to * slower) > cost * now;
}

std::string Hundredths(double value) {
  const auto hundredths = static_cast<int64_t>(std::llround(std::max(value, 0.0) * 100));
  std::string cents = std::to_string(hundredths % 100);
  if (cents.size() == 1) cents.insert(0, "0");
  return std::to_string(hundredths / 100) + "." + cents;
}

std::string Percent(double part) { return std::to_string(std::llround(part * 100)) + " %"; }

// "3 nodes. With 4, the job would be 9 % faster, and the added node would bring 0.25 of what …"
std::string WhyNoMore(const Throughput& speed, const SizeQuestion& question, uint32_t best) {
  const auto next = std::upper_bound(question.sizes.begin(), question.sizes.end(), best);
  if (next == question.sizes.end()) {
    const bool is_only = question.sizes.size() == 1;
    const bool is_compared = std::any_of(question.sizes.begin(), next, [&](uint32_t size) {
      return size != best && speed.IsMeasured(size);
    });
    return Counted(best, "node") +
           (is_only ? ", the only size that the job can have"
            : is_compared
                ? ", the most that the job can have: each is worth it"
                : ", the most that the job can have; no smaller size was measured, and by "
                  "prediction each node is worth it");
  }
  const double faster = speed.curve().At(best) / speed.curve().At(*next) - 1;
  const double added = speed.Between(best, *next).mean;
  const std::string limit = Hundredths(question.efficiency_least);
  const std::string gain = faster < 0.005 ? std::string("no faster") : Percent(faster) + " faster";
  return Concat(Counted(best, "node"), ": with ", std::to_string(*next), " the job would be ", gain,
                ", and each added node would bring ", Hundredths(added),
                " of the first node's speed, which is below efficiency_least ", limit,
                speed.IsMeasured(*next)
                    ? ""
                    : Concat(" (predicted: ", Counted(*next, "node"), " were not measured)"));
}

}  // namespace

SizeChoice ChooseSize(const Throughput& speed, const SizeQuestion& question) {
  CHECK(!question.sizes.empty(), "a job has at least one size");
  CHECK(question.now > 0, "a world that trains has a node");
  const uint32_t best = BestSize(speed, question, View::kMean);
  const double step_now = speed.curve().At(question.now);
  SizeChoice choice{.nodes = question.now,
                    .best = best,
                    .explores = false,
                    .step_seconds = step_now,
                    .reason = ""};
  const auto go_to = [&](uint32_t nodes, std::string reason) {
    choice.nodes = nodes;
    choice.step_seconds = speed.curve().At(nodes);
    choice.reason = std::move(reason);
  };

  if (best != question.now) {
    if (IsWorth(question, best, step_now, speed.curve().At(best))) {
      go_to(best, WhyNoMore(speed, question, best));
    } else {
      choice.reason =
          Concat(Counted(best, "node"), " would be better than ", std::to_string(question.now),
                 ", but a change would cost ", Hundredths(question.change_cost.ToSecondsF()),
                 " s and gain less than three times as much");
    }
    return choice;
  }

  // The best size as far as known. A size that may be better as well is tried once.
  for (const View view : {View::kMost, View::kLeast}) {
    const uint32_t other = BestSize(speed, question, view);
    if (other == best || speed.IsMeasured(other)) continue;
    const double hoped = other > best ? speed.Predict(other).least : speed.curve().At(other);
    if (!IsWorth(question, other, step_now, hoped)) continue;
    choice.explores = true;
    go_to(other, Concat(Counted(other, "node"), " may be as good as ", std::to_string(best),
                        ", which the measurements leave open: to be measured"));
    return choice;
  }
  choice.reason = WhyNoMore(speed, question, best);
  return choice;
}

std::vector<uint32_t> SizesBetween(uint32_t min, uint32_t max, uint32_t unit) {
  const uint32_t step = std::max(unit, 1U);
  std::vector<uint32_t> sizes;
  for (uint64_t size = (std::max(min, 1U) + uint64_t{step} - 1) / step * step; size <= max;
       size += step) {
    sizes.push_back(static_cast<uint32_t>(size));
  }
  return sizes;
}

}  // namespace paceline::brain
