#pragma once

// Whether a loss is one of a run that goes well: a number, and not far above the last ones.
//
// Two values are watched, the loss and the norm of the gradients. A value is bad when it is no
// number, or a spike: above the median of the last ones by more than kSpread times their spread (by
// the median absolute deviation) and by more than a multiple of the median itself. A run of bad
// values begins once, however long it is; it ends when kGoodAgain values in a row were good. Spikes
// count among the last ones, so a loss that stays high is the usual one after a while.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace paceline {

enum class BadLossKind : uint32_t {
  kNone = 0,
  kLossNoNumber = 1,
  kLossSpike = 2,
  kNormNoNumber = 3,
  kNormSpike = 4,
};
inline constexpr uint32_t kBadLossKinds = 5;

// How a run of bad values began.
struct BadLoss {
  uint32_t count = 0;  // runs so far in this attempt; 0: none, and the rest means nothing
  int64_t step = -1;
  BadLossKind kind = BadLossKind::kNone;
  double value = 0;
  double usual = std::numeric_limits<double>::quiet_NaN();  // the median before; NaN: not known
  bool operator==(const BadLoss& other) const {
    // No number equals itself: both may be none.
    const auto same = [](double a, double b) { return a == b || (a != a && b != b); };
    return count == other.count && step == other.step && kind == other.kind &&
           same(value, other.value) && same(usual, other.usual);
  }
};

// "the loss was NaN at step 118", "the loss rose to 8.2 at step 118; it was about 2.1 before".
std::string BadLossText(const BadLoss& bad);

class LossWatch {
 public:
  static constexpr size_t kKept = 64;
  static constexpr size_t kNeeded = 20;  // so many values show what is usual
  static constexpr int kGoodAgain = 20;
  static constexpr double kSpread = 10;
  static constexpr double kLossFactor = 1;  // of the median, above it
  static constexpr double kNormFactor = 4;

  // Takes the loss and the gradients' norm of a step, as far as the script reported them. Returns a
  // result if this step begins a series of bad values.
  std::optional<BadLoss> Take(int64_t step, std::optional<double> loss, std::optional<double> norm);

 private:
  class Series {
   public:
    // Whether `value` is far above the others; it is one of them from now on.
    bool IsSpike(double value, double factor, double* median);

   private:
    std::array<double, kKept> values_ = {};
    size_t taken_ = 0;  // in all
  };
  BadLossKind Judge(std::optional<double> loss, std::optional<double> norm, BadLoss* bad);

  Series losses_;
  Series norms_;
  uint32_t runs_ = 0;
  bool is_bad_ = false;
  int good_ = 0;  // in a row, within a run
};

}  // namespace paceline
