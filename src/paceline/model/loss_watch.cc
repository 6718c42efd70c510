#include "paceline/model/loss_watch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace paceline {
namespace {

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinite" : "minus infinite";
  std::array<char, 32> text = {};
  (void)std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

double MedianOf(double* first, size_t count) {
  double* middle = first + count / 2;
  std::nth_element(first, middle, first + count);
  return *middle;
}

}  // namespace

bool LossWatch::Series::IsSpike(double value, double factor, double* median) {
  const size_t count = std::min(taken_, kKept);
  bool is_spike = false;
  if (count >= kNeeded) {
    std::array<double, kKept> sorted = values_;
    *median = MedianOf(sorted.data(), count);
    for (size_t i = 0; i < count; ++i) sorted[i] = std::abs(values_[i] - *median);
    constexpr double kSigmas = 1.4826;  // a normal deviation in median absolute ones
    const double spread = kSpread * kSigmas * MedianOf(sorted.data(), count);
    is_spike = value - *median > std::max(spread, factor * std::abs(*median));
  }
  values_[taken_++ % kKept] = value;
  return is_spike;
}

BadLossKind LossWatch::Judge(std::optional<double> loss, std::optional<double> norm, BadLoss* bad) {
  BadLossKind kind = BadLossKind::kNone;
  const auto look = [&](std::optional<double> value, Series* series, double factor,
                        BadLossKind no_number, BadLossKind spike) {
    if (!value.has_value()) return;
    double usual = std::numeric_limits<double>::quiet_NaN();
    const bool is_number = std::isfinite(*value);
    const bool is_bad = !is_number || series->IsSpike(*value, factor, &usual);
    if (!is_bad || kind != BadLossKind::kNone) return;
    kind = is_number ? spike : no_number;
    bad->value = *value;
    bad->usual = usual;
  };
  look(loss, &losses_, kLossFactor, BadLossKind::kLossNoNumber, BadLossKind::kLossSpike);
  look(norm, &norms_, kNormFactor, BadLossKind::kNormNoNumber, BadLossKind::kNormSpike);
  return kind;
}

std::optional<BadLoss> LossWatch::Take(int64_t step, std::optional<double> loss,
                                       std::optional<double> norm) {
  if (!loss.has_value() && !norm.has_value()) return std::nullopt;
  BadLoss bad{.step = step};
  bad.kind = Judge(loss, norm, &bad);
  if (bad.kind == BadLossKind::kNone) {
    if (is_bad_ && ++good_ >= kGoodAgain) is_bad_ = false;
    return std::nullopt;
  }
  good_ = 0;
  if (is_bad_) return std::nullopt;
  is_bad_ = true;
  bad.count = ++runs_;
  return bad;
}

std::string BadLossText(const BadLoss& bad) {
  const bool is_norm =
      bad.kind == BadLossKind::kNormNoNumber || bad.kind == BadLossKind::kNormSpike;
  const bool is_spike = bad.kind == BadLossKind::kLossSpike || bad.kind == BadLossKind::kNormSpike;
  std::string text = is_norm ? "the norm of the gradients " : "the loss ";
  text += (is_spike ? "rose to " : "was ") + NumberText(bad.value);
  text += " at step " + std::to_string(bad.step);
  if (is_spike) text += "; it was about " + NumberText(bad.usual) + " before";
  return text;
}

}  // namespace paceline
