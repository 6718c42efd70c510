#pragma once

// Estimates the time of one rank's own work for a step of b samples: seconds(b) = fixed +
// per_sample * b.
//
// Recursive least squares with forgetting. A rank whose share is constant gives no information
// about the split into the two parts, and plain forgetting would lose that split to noise. So
// information is forgotten only in the direction of an observation (L. Cao and H. M. Schwartz, "A
// directional forgetting algorithm based on the decomposition of the information matrix",
// Automatica 36, 2000). The first value is the median of three observations, because a process's
// first steps are slow.
//
// One slow step does not make a slow rank: an observation moves the model by at most three standard
// deviations. A lasting change is detected by a two-sided CUSUM of the standardized errors (E. S.
// Page, "Continuous inspection schemes", Biometrika 41, 1954), also capped at three, which takes at
// least three observations. The model is then scaled to the observations since the change began.

#include <array>
#include <cstdint>

namespace paceline {

// A rank's measured own work, without waits for others; the mean over steps with the same share.
// Both values must be above 0 and finite.
struct StepTime {
  double samples = 0;
  double seconds = 0;
};

// seconds = fixed + per_sample * samples; fixed at least 0, per_sample above 0.
struct LinearTime {
  double fixed = 0;
  double per_sample = 0;
  double SecondsFor(double samples) const { return fixed + per_sample * samples; }
};

class SpeedModel {
 public:
  void Observe(const StepTime& time);

  // The model predicts after at least three observations.
  bool is_known() const { return observations_ >= kFirst; }

  // A line that is exact at `samples`. Elsewhere it is limited to what is physical: no negative
  // time, and no sample without time. Only if known.
  LinearTime LineAt(double samples) const;

  // The standard error of the expected time at `samples`, in seconds. Only if known.
  double ErrorAt(double samples) const;

  // How many lasting changes of speed were detected.
  uint64_t changes() const { return changes_; }

 private:
  struct Row {  // a regressor, or the parameters: fixed, and the time of unit_ samples
    double one = 0;
    double load = 0;
  };
  struct Side {  // of the CUSUM
    double sum = 0;
    double seconds = 0;  // observed since the sum was last 0, and the sum of their regressors
    Row rows;
  };

  static constexpr uint64_t kFirst = 3;

  void Begin();
  void Learn(const Row& row, double error);
  void Watch(Side& side, double error, const StepTime& time);
  Row RowOf(double samples) const { return {1, samples / unit_}; }
  double Expected(const Row& row) const { return row.one * at_.one + row.load * at_.load; }
  double VarianceAt(const Row& row) const;  // of the expectation, in squared noise

  std::array<StepTime, kFirst> first_;
  double unit_ = 1;  // samples; scales both regressors to about 1
  Row at_;
  double info_[3] = {};  // the symmetric information matrix: one-one, one-load, load-load
  double noise_ = 0;     // standard deviation of an observation, seconds
  Side slower_;
  Side faster_;
  uint64_t observations_ = 0;
  uint64_t changes_ = 0;
};

}  // namespace paceline
