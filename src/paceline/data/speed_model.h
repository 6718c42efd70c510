#pragma once

// How long one rank's own work for a step takes: seconds(b) = fixed + per_sample * b for b samples.
//
// Recursive least squares with forgetting. A rank whose share does not change says nothing about
// how its time splits into the two parts, and plain forgetting would then forget what is known of
// it until noise decides; so information is forgotten only in the direction that an observation
// speaks of (L. Cao and H. M. Schwartz, "A directional forgetting algorithm based on the
// decomposition of the information matrix", Automatica 36, 2000).
//
// It begins with the middle one of three observations: the first steps of a process are slow.
//
// One slow step is not a slow rank: an observation moves the model by at most three standard
// deviations. A change that lasts is found by a two-sided CUSUM of the standardized errors (E. S.
// Page, "Continuous inspection schemes", Biometrika 41, 1954), also capped at three, which takes
// three observations at least; the model is then scaled to what was seen since the change began.

#include <array>
#include <cstdint>

namespace paceline {

// What a rank measured of its own work, waiting for others left out; a mean over several steps of
// the same share. Both above 0 and finite.
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

  // Three observations are the least from which anything is expected.
  bool is_known() const { return observations_ >= kFirst; }

  // The line through what is expected at `samples`, which is exact there; elsewhere it is bent to
  // what a machine can do (no negative time, and no sample for nothing). Only when known.
  LinearTime LineAt(double samples) const;

  // One standard error of what is expected at `samples`, seconds. Only when known.
  double ErrorAt(double samples) const;

  // How often the work became lastingly slower or faster.
  uint64_t changes() const { return changes_; }

 private:
  struct Row {  // a regressor, or the parameters: fixed, and the time of unit_ samples
    double one = 0;
    double load = 0;
  };
  struct Side {  // of the CUSUM
    double sum = 0;
    double seconds = 0;  // observed since the sum was 0 last, and the sum of their regressors
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
  double unit_ = 1;  // samples; so that both regressors are about 1
  Row at_;
  double info_[3] = {};  // the symmetric information matrix: one-one, one-load, load-load
  double noise_ = 0;     // standard deviation of an observation, seconds
  Side slower_;
  Side faster_;
  uint64_t observations_ = 0;
  uint64_t changes_ = 0;
};

}  // namespace paceline
