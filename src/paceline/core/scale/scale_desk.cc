#include "paceline/core/scale/scale_desk.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/base/text.h"

namespace paceline::core {
namespace {

// Standard deviations of a normal distribution by the median of the absolute differences from its
// median, and the standard error of the median of n by that.
constexpr double kDeviations = 1.4826;
constexpr double kOfMedian = 1.2533;

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

SizeSpeed SpeedOf(uint32_t nodes, const std::deque<double>& windows) {
  const std::vector<double> times(windows.begin(), windows.end());
  const double median = MedianOf(times);
  std::vector<double> distances;
  for (const double time : times) distances.push_back(std::abs(time - median));
  const double deviation = kDeviations * MedianOf(distances);
  const double count = static_cast<double>(times.size());
  return {.nodes = nodes,
          .step_seconds = median,
          .error = kOfMedian * deviation / std::sqrt(count),
          .windows = static_cast<uint32_t>(times.size())};
}

bool IsMeasured(const SizeSpeed& speed) { return speed.windows >= ScaleDesk::kWindowsLeast; }

// The nodes of the chosen size have had their time to come.
bool IsChangeLate(const JobState& state, Instant now) {
  return now - state.size.at > ScaleDesk::kArrivalPatience;
}

brain::SizeSample SampleOf(const SizeSpeed& speed) {
  return {.nodes = speed.nodes, .step_seconds = speed.step_seconds, .error = speed.error};
}

// "1, 2 and 4 nodes"
std::string SizesText(const std::map<uint32_t, SizeSpeed>& sizes) {
  std::string text;
  size_t left = sizes.size();
  for (const auto& [nodes, speed] : sizes) {
    --left;
    text += std::to_string(nodes) + (left > 1 ? ", " : left == 1 ? " and " : " nodes");
  }
  return text;
}

}  // namespace

void ScaleDesk::Remember(const std::vector<JobHistory>& earlier) {
  for (const JobHistory& run : earlier) {
    for (const SizeSpeed& speed : run.curve) {
      if (IsMeasured(speed)) earlier_.emplace(speed.nodes, speed);
    }
  }
  shared_batch_earlier_ =
      !earlier.empty() && std::all_of(earlier.begin(), earlier.end(),
                                      [](const JobHistory& run) { return run.shares_batch; });
  std::vector<brain::SizeSample> samples;
  for (const auto& [nodes, speed] : earlier_) samples.push_back(SampleOf(speed));
  earlier_speed_ = brain::Throughput::Fit(samples);
}

std::optional<brain::StepCurve> ScaleDesk::PriorFor(
    const std::vector<brain::SizeSample>& samples) const {
  if (!earlier_speed_.has_value()) return std::nullopt;
  const brain::StepCurve& curve = earlier_speed_->curve();
  const auto is_other = [&](const brain::SizeSample& one) {
    const double ratio = one.step_seconds / curve.At(one.nodes);
    return !(ratio > 1 / kLikeness && ratio < kLikeness);
  };
  const bool is_like = std::none_of(samples.begin(), samples.end(), is_other);
  return is_like ? std::optional(curve) : std::nullopt;
}

std::optional<SizeRequested> ScaleDesk::First(const JobState& state) const {
  const JobSpec& spec = state.spec;
  if (spec.scale != ScaleMode::kAuto || !shared_batch_earlier_ || earlier_.size() < 2) {
    return std::nullopt;
  }
  if (state.size.nodes > 0 || state.AnyWorldYet()) return std::nullopt;
  const std::vector<uint32_t> sizes =
      brain::SizesBetween(spec.nodes_min, spec.nodes_max, spec.unit);
  if (!earlier_speed_.has_value() || sizes.empty()) return std::nullopt;
  const brain::SizeChoice choice =
      brain::ChooseSize(*earlier_speed_, {.sizes = sizes,
                                          .now = sizes.back(),
                                          .efficiency_least = spec.efficiency_least,
                                          .outlook = brain::kOutlookMax,
                                          .change_cost = Duration()});
  return SizeRequested{.nodes = choice.best,
                       .at_once = false,
                       .why = "earlier runs of this script measured " + SizesText(earlier_) +
                              ", and " + Counted(choice.best, "node") + " " +
                              (choice.best == 1 ? "was" : "were") + " the best size",
                       .is_measured = true};
}

void ScaleDesk::Begin(Instant now, const JobState& state) {
  const auto nodes = static_cast<uint32_t>(state.world->seats.size());
  const bool is_resized = nodes_ != 0 && nodes != nodes_;
  // After a failure the time until the next step is the failure's, and says nothing about a change.
  const bool is_planned = is_resized && state.size.nodes == nodes && !state.incident.pending;
  left_at_ = is_planned ? std::optional(std::max(heard_at_, state.size.at)) : std::nullopt;
  if (left_at_.has_value() && *left_at_ > now) left_at_ = std::nullopt;
  generation_ = state.world->generation;
  nodes_ = nodes;
  is_warm_ = false;
  mark_ = std::nullopt;
  windows_here_ = 0;
}

bool ScaleDesk::Take(Instant now, const JobState& state, const std::vector<RankSample>& samples) {
  if (!state.world.has_value() || state.spec.scale == ScaleMode::kOff) return false;
  if (generation_ != state.world->generation) Begin(now, state);
  if (state.size.is_measured && state.size.nodes > state.world->seats.size() &&
      IsChangeLate(state, now)) {
    unreached_ = std::min(unreached_, state.size.nodes);
  }
  bool has_ended = false;
  for (const RankSample& sample : samples) {
    if (sample.generation != generation_ || sample.rank.value() != 0) continue;
    shares_batch_ = sample.shares_batch;
    heard_at_ = now;
    if (left_at_.has_value()) cost_ = now - *std::exchange(left_at_, std::nullopt);
    if (!mark_.has_value() || sample.sums.steps < mark_->steps) {
      mark_ = sample.sums;
      continue;
    }
    const uint64_t steps = sample.sums.steps - mark_->steps;
    const Duration whole = sample.sums.whole - mark_->whole;
    if (steps < kWindowSteps || whole < kWindowTime) continue;
    mark_ = sample.sums;
    if (!std::exchange(is_warm_, true)) continue;
    std::deque<double>& windows = windows_[nodes_];
    windows.push_back(whole.ToSecondsF() / static_cast<double>(steps));
    if (windows.size() > kWindowsMost) windows.pop_front();
    ++windows_here_;
    has_ended = true;
  }
  return has_ended;
}

std::vector<SizeSpeed> ScaleDesk::Curve() const {
  std::vector<SizeSpeed> curve;
  for (const auto& [nodes, windows] : windows_) curve.push_back(SpeedOf(nodes, windows));
  return curve;
}

// Without a platform that starts nodes by the wish, only those that are here can train. A launcher
// starts a lost node again, and no other one.
std::vector<uint32_t> ScaleDesk::SizesFor(const JobState& state) const {
  const JobSpec& spec = state.spec;
  uint32_t most = std::min(spec.nodes_max, unreached_ - 1);
  if (!spec.is_placed && state.world.has_value()) {
    uint32_t here = 0;
    for (const auto& [id, node] : state.nodes) {
      const bool comes_back = node.status == NodeState::Status::kLost && spec.replace_nodes;
      here += node.IsMember() || comes_back ? 1 : 0;
    }
    most = std::min(most, here);
  }
  return brain::SizesBetween(spec.nodes_min, std::max(most, spec.nodes_min), spec.unit);
}

std::vector<SizeSpeed> ScaleDesk::Measured() const {
  std::vector<SizeSpeed> measured = Curve();
  std::erase_if(measured, [](const SizeSpeed& speed) { return !IsMeasured(speed); });
  return measured;
}

std::string ScaleDesk::Hindrance(const JobState& state, Instant now) const {
  const JobSpec& spec = state.spec;
  if (spec.scale == ScaleMode::kOff) return "[scale] mode is off";
  if (state.phase != Phase::kRunning || !state.world.has_value()) return "the job does not train";
  if (spec.nodes_min == spec.nodes_max) {
    return "the job has a fixed number of nodes: give --nnodes MIN:MAX";
  }
  const bool is_by_hand = state.size.nodes > 0 && !state.size.is_measured;
  if (is_by_hand && spec.scale == ScaleMode::kAuto) return "the size was chosen by hand";
  if (generation_ != state.world->generation || windows_here_ < kWindowsLeast) {
    return Concat("the job is measured at its present size: ",
                  std::to_string(generation_ == state.world->generation ? windows_here_ : 0),
                  " of ", std::to_string(kWindowsLeast), " windows");
  }
  if (!state.slow.empty()) return "a host is slow, so that its time is not that of the size";
  if (!shares_batch_) {
    return "the script has no paceline ElasticLoader, so that the global batch, and with it the "
           "training, may change with the size";
  }
  if (spec.scale == ScaleMode::kAdvise) return "[scale] mode is advise: `paceline scale --nodes N`";
  const Duration settle = 2 * cost_.value_or(kCostUnknown);
  if (state.size.nodes > 0 && now - state.size.at < settle) return "the last change is too recent";
  if (state.size.nodes > 0 && state.size.nodes != state.world->seats.size() &&
      !IsChangeLate(state, now)) {
    return "the job is on its way to " + Counted(state.size.nodes, "node");
  }
  return "";
}

SizeAdvice ScaleDesk::Advise(const JobState& state, const Facts& facts) const {
  SizeAdvice advice{.choice = std::nullopt, .hindrance = Hindrance(state, facts.now)};
  if (!state.world.has_value()) return advice;
  std::vector<brain::SizeSample> samples;
  for (const SizeSpeed& speed : Measured()) samples.push_back(SampleOf(speed));
  // The newest size first: the prior is made for it.
  std::stable_partition(samples.begin(), samples.end(),
                        [&](const brain::SizeSample& one) { return one.nodes == nodes_; });
  const JobSpec& spec = state.spec;
  brain::SizeQuestion question{.sizes = SizesFor(state),
                               .now = static_cast<uint32_t>(state.world->seats.size()),
                               .efficiency_least = spec.efficiency_least,
                               .outlook = facts.now - facts.created_at,
                               .change_cost = cost_.value_or(kCostUnknown)};
  const auto speed = brain::Throughput::Fit(samples, PriorFor(samples));
  if (!speed.has_value() || question.sizes.empty()) return advice;
  if (facts.steps_left >= 0) {
    const double left = static_cast<double>(facts.steps_left) * speed->curve().At(question.now);
    const double bounded = std::min(left, brain::kOutlookMax.ToSecondsF());
    question.outlook = Duration::Milliseconds(static_cast<int64_t>(bounded * 1000));
  }
  advice.choice = brain::ChooseSize(*speed, question);
  return advice;
}

std::optional<SizeRequested> ScaleDesk::Due(const JobState& state, const Facts& facts) const {
  if (state.spec.scale != ScaleMode::kAuto || !Hindrance(state, facts.now).empty()) {
    return std::nullopt;
  }
  const SizeAdvice advice = Advise(state, facts);
  if (!advice.choice.has_value()) return std::nullopt;
  const brain::SizeChoice& choice = *advice.choice;
  if (choice.nodes == state.world->seats.size()) return std::nullopt;
  return SizeRequested{
      .nodes = choice.nodes, .at_once = false, .why = choice.reason, .is_measured = true};
}

}  // namespace paceline::core
