#include "paceline/plan/search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/plan/axis/axis.h"
#include "paceline/plan/explain.h"
#include "paceline/plan/improve.h"
#include "paceline/plan/interleave.h"
#include "paceline/plan/json.h"
#include "paceline/plan/make_plan.h"
#include "paceline/plan/nothing_fits.h"
#include "paceline/plan/pass_table.h"
#include "paceline/plan/pipeline_cut.h"
#include "paceline/plan/replicas.h"
#include "paceline/plan/schedule/schedule.h"
#include "paceline/plan/utilization.h"
#include "paceline/plan/whale.h"

namespace paceline::plan {
namespace {

constexpr uint64_t kTransitionsOfAKind =
    6'000'000;  // for a plan that is only reported beside the best
constexpr size_t kRejectedTold = 8;
constexpr double kSlack = 1.01;
constexpr size_t kImprovedMost = 8;  // cuts of a shape

struct Candidate {
  Shape shape;
  double bound = 0;
};

// Of plans of one kind only the best is reported.
struct Kind {
  bool is_pipeline = false;
  bool is_interleaved = false;
  bool is_in_parts = false;
  bool is_tensor = false;
  bool is_sharded = false;
  bool recomputes = false;
  auto operator<=>(const Kind&) const = default;
};

Kind KindOf(const Shape& shape) {
  return {.is_pipeline = shape.pipeline > 1,
          .is_interleaved = shape.virtual_stages > 1,
          .is_in_parts = Schedules()[shape.schedule] == &kZeroBubble,
          .is_tensor = shape.tensor > 1,
          .is_sharded = shape.shard != 0,
          .recomputes = shape.recompute != 0};
}

std::string KindWords(const Kind& kind) {
  std::vector<std::string_view> words;
  if (kind.is_in_parts) words.push_back(kZeroBubble.name);
  if (kind.is_pipeline) words.push_back(kind.is_interleaved ? "interleaved pipeline" : "pipeline");
  if (kind.is_tensor) words.push_back("tensor");
  if (words.empty()) words.push_back("data parallelism alone");
  if (kind.is_sharded) words.push_back("sharded state");
  if (kind.recomputes) words.push_back("recomputation");
  return JoinWith(words, ", ");
}

// The best plan of a kind.
struct Found {
  double closed = kNever;
  std::optional<ParallelPlan> plan;
  double equal_shares = 0;
  Shape shape;
  PipelineCut cut;  // of a pipeline
};

class Search {
 public:
  Search(Scene scene, const PlanWishes& wishes, const SearchLimits& limits)
      : scene_(std::move(scene)), wishes_(wishes), limits_(limits), left_(limits.transitions) {}

  // All shapes that the wishes allow, sorted by their lower bounds.
  void Enumerate() {
    Shape shape;
    Choose(0, shape);
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const auto& a, const auto& b) { return a.bound < b.bound; });
  }

  void Run() {
    bound_ = kNever;
    for (const Candidate& candidate : candidates_) {
      if (candidate.bound >= best_closed_ * limits_.near) break;
      ++looked_at_;
      Look(candidate.shape, best_closed_ * limits_.near, kSlack, left_, &bound_);
    }
    ImproveInterleaved();
    bound_ = std::min(bound_, best_closed_);
    LookAtWhale();
  }

  // For each kind without a plan, finds one among its most promising shapes.
  void LookAtOtherKinds() {
    std::map<Kind, uint64_t> left;
    for (const Candidate& candidate : candidates_) {
      Found& found = by_kind_[KindOf(candidate.shape)];
      if (found.plan.has_value() || candidate.bound == kNever) continue;
      uint64_t& budget =
          left.try_emplace(KindOf(candidate.shape), kTransitionsOfAKind).first->second;
      if (budget > 0) Look(candidate.shape, kNever, 1, budget, nullptr);
    }
  }

  std::optional<ParallelPlan> Any() {
    for (const auto& [shape, bound] : candidates_) {
      if (bound == kNever) break;
      if (shape.pipeline == 1) {
        if (const auto cut = CutReplicas(scene_, shape)) return PlanOf(scene_, shape, *cut);
        continue;
      }
      if (IsSimulated(shape)) {
        const auto cut = CutInterleaved(scene_, PassesOf(shape), shape);
        if (cut) return PlanOf(scene_, shape, *cut);
        continue;
      }
      const auto found = CutPipeline(scene_, PassesOf(shape), shape, kNever, 1, &left_);
      if (!found.cuts.empty()) return PlanOf(scene_, shape, found.cuts.back());
    }
    return std::nullopt;
  }

  // By kind: the shape whose ranks need the least memory.
  std::map<Kind, Shape> Smallest() const {
    std::map<Kind, std::pair<double, Shape>> smallest;
    for (const Candidate& candidate : candidates_) {
      const double need = NeedOf(scene_, candidate.shape);
      const auto [known, is_new] =
          smallest.try_emplace(KindOf(candidate.shape), need, candidate.shape);
      if (need < known->second.first) known->second = {need, candidate.shape};
    }
    std::map<Kind, Shape> shapes;
    for (const auto& [kind, found] : smallest) shapes.emplace(kind, found.second);
    return shapes;
  }

  const Found* Best() const {
    const Found* best = nullptr;
    for (const auto& [kind, found] : by_kind_) {
      if (!found.plan.has_value()) continue;
      if (best == nullptr || found.plan->predicted.step < best->plan->predicted.step) {
        best = &found;
      }
    }
    return best;
  }

  const Scene& scene() const { return scene_; }
  const PlanWishes& wishes() const { return wishes_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  const std::map<Kind, Found>& by_kind() const { return by_kind_; }
  const std::map<size_t, std::string>& refusals() const { return refusals_; }
  double bound() const { return bound_; }
  double best_closed() const { return best_closed_; }
  SearchReport Report() const {
    return {.closed = best_closed_,
            .shapes = candidates_.size(),
            .looked_at = looked_at_,
            .transitions = limits_.transitions - left_};
  }

 private:
  void Choose(size_t axis, Shape& shape) {
    if (axis == kAxisCount) {
      candidates_.push_back({shape, BoundOfShape(shape)});
      return;
    }
    const Axis& row = *Axes()[axis];
    const std::vector<uint32_t>& only = wishes_.only[axis];
    const std::vector<uint32_t> values = only.empty() ? row.values(scene_, shape) : only;
    for (const uint32_t value : values) {
      std::string why = row.refuses(scene_, shape, value);
      if (!why.empty()) {
        refusals_.try_emplace(axis, Concat(row.name, " ", value, ": ", why));
        continue;
      }
      shape.*row.field = value;
      Choose(axis + 1, shape);
      shape.*row.field = Shape{}.*row.field;
    }
  }

  bool IsAllowed(const Shape& shape) const {
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      const Axis& row = *Axes()[axis];
      const uint32_t value = shape.*row.field;
      const std::vector<uint32_t>& only = wishes_.only[axis];
      if (!only.empty() && std::find(only.begin(), only.end(), value) == only.end()) return false;
      if (!row.refuses(scene_, shape, value).empty()) return false;
    }
    return true;
  }

  void LookAtWhale() {
    const auto whale = WhaleCut(scene_);
    if (!whale || !IsAllowed(whale->shape)) return;
    if (SimulatedSeconds(scene_, whale->shape, whale->cut) == kNever) return;
    const PipelineCut cut = Improved(scene_, whale->shape, whale->cut);
    Keep({.closed = ClosedSeconds(scene_, whale->shape, cut),
          .plan = PlanOf(scene_, whale->shape, cut),
          .shape = whale->shape,
          .cut = cut});
  }

  const PassTable& PassesOf(const Shape& shape) {
    const auto key = std::tuple(shape.tensor, shape.sequence, shape.recompute);
    auto known = passes_.find(key);
    if (known == passes_.end()) known = passes_.emplace(key, PassTable(scene_, shape)).first;
    return known->second;
  }

  double BoundOfShape(const Shape& shape) {
    if (shape.pipeline == 1) return ReplicaSeconds(scene_, shape);
    if (NeedOf(scene_, shape) * shape.pipeline > RoomOf(scene_, shape)) return kNever;
    return BoundOf(scene_, PassesOf(shape), shape).seconds();
  }

  void Look(const Shape& shape, double below, double slack, uint64_t& budget, double* bound) {
    if (shape.pipeline == 1) {
      const auto cut = CutReplicas(scene_, shape);
      if (!cut) return;
      const bool is_even = *std::max_element(cut->shares.begin(), cut->shares.end()) <=
                           *std::min_element(cut->shares.begin(), cut->shares.end()) + 1;
      Keep({.closed = cut->seconds,
            .plan = PlanOf(scene_, shape, *cut),
            .equal_shares = is_even ? 0 : SecondsWithEqualShares(scene_, shape, *cut),
            .shape = shape});
      return;
    }
    if (IsSimulated(shape)) {
      LookInterleaved(shape, below);
      return;
    }
    const CutSearch search = CutPipeline(scene_, PassesOf(shape), shape, below, slack, &budget);
    if (bound != nullptr && !search.is_complete) *bound = std::min(*bound, search.bound);
    size_t improved = 0;
    for (auto cut = search.cuts.rbegin(); cut != search.cuts.rend(); ++cut) {
      if (++improved > kImprovedMost) break;
      // A plan that is only reported beside the best is not improved, to save time.
      const PipelineCut better = slack > 1 ? Improved(scene_, shape, *cut) : *cut;
      Keep({.closed = cut->seconds,
            .plan = PlanOf(scene_, shape, better),
            .shape = shape,
            .cut = better});
    }
  }

  void LookInterleaved(const Shape& shape, double below) {
    const auto cut = CutInterleaved(scene_, PassesOf(shape), shape);
    if (!cut || cut->seconds >= below) return;
    Keep(
        {.closed = cut->seconds, .plan = PlanOf(scene_, shape, *cut), .shape = shape, .cut = *cut});
  }

  // Of the best interleaved plan alone, because each move of a border is a simulation.
  void ImproveInterleaved() {
    for (auto& [kind, found] : by_kind_) {
      if (!found.plan.has_value() || !IsSimulated(found.shape)) continue;
      PipelineCut cut = Improved(scene_, found.shape, found.cut);
      cut.seconds = SimulatedSeconds(scene_, found.shape, cut);
      Keep({.closed = cut.seconds,
            .plan = PlanOf(scene_, found.shape, cut),
            .shape = found.shape,
            .cut = cut});
    }
  }

  void Keep(Found one) {
    best_closed_ = std::min(best_closed_, one.closed);
    Found& found = by_kind_[KindOf(one.shape)];
    if (found.plan.has_value() && found.plan->predicted.step <= one.plan->predicted.step) return;
    found = std::move(one);
  }

  const Scene scene_;
  const PlanWishes wishes_;
  const SearchLimits limits_;
  uint64_t left_;
  uint64_t looked_at_ = 0;
  std::vector<Candidate> candidates_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, PassTable> passes_;  // by tensor, recompute
  std::map<Kind, Found> by_kind_;
  std::map<size_t, std::string> refusals_;  // by axis: the first one
  double best_closed_ = kNever;
  double bound_ = kNever;
};

// Values that no plan of the search may have, and why: the model rules them out, or a wish.
std::vector<RejectedPlan> RuledOut(const Scene& scene, const PlanWishes& wishes) {
  std::vector<RejectedPlan> rejected;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    if (wishes.because[axis].empty() || wishes.only[axis].empty()) continue;
    rejected.push_back(
        {.plan = Concat(Axes()[axis]->name, " other than ", wishes.only[axis].front()),
         .step = std::nullopt,
         .because = wishes.because[axis]});
  }
  if (scene.devices == 1) return rejected;
  if (!scene.no_pipeline.empty()) {
    rejected.push_back({.plan = "pipeline", .step = std::nullopt, .because = scene.no_pipeline});
  }
  if (!scene.no_tensor.empty()) {
    rejected.push_back({.plan = "tensor", .step = std::nullopt, .because = scene.no_tensor});
  }
  return rejected;
}

// The plans of other kinds, the fastest first; those that do not fit last.
std::vector<RejectedPlan> RejectedOf(const Search& search, const Found& best) {
  std::vector<RejectedPlan> rejected;
  for (const auto& [kind, found] : search.by_kind()) {
    if (&found == &best || !found.plan.has_value()) continue;
    rejected.push_back({.plan = WordsOf(*found.plan),
                        .step = found.plan->predicted.step,
                        .because = SlowerBecause(*found.plan, *best.plan)});
  }
  std::stable_sort(rejected.begin(), rejected.end(),
                   [](const auto& a, const auto& b) { return *a.step < *b.step; });
  for (const auto& [kind, shape] : search.Smallest()) {
    const auto known = search.by_kind().find(kind);
    if (known != search.by_kind().end() && known->second.plan.has_value()) continue;
    rejected.push_back({.plan = KindWords(kind),
                        .step = std::nullopt,
                        .because = TooLargeText(search.scene(), shape)});
  }
  if (rejected.size() > kRejectedTold) rejected.resize(kRejectedTold);
  const auto ruled_out = RuledOut(search.scene(), search.wishes());
  rejected.insert(rejected.end(), ruled_out.begin(), ruled_out.end());
  return rejected;
}

Shape SmallestOf(const Search& search) {
  Shape smallest;
  double least = kNever;
  for (const auto& [kind, shape] : search.Smallest()) {
    const double need = NeedOf(search.scene(), shape);
    if (need < least) smallest = shape;
    least = std::min(least, need);
  }
  return smallest;
}

std::string PlaceOf(const ModelSummary& model, const Cluster& cluster) {
  std::vector<std::string> groups;
  for (const DeviceRun& run : cluster.runs) {
    if (run.type >= cluster.types.size()) continue;
    groups.push_back(Concat(cluster.types[run.type].name, ":", run.count));
    if (groups.size() == 8) break;
  }
  return Concat(model.name.empty() ? "the model" : model.name, " on ", JoinWith(groups, ","));
}

std::variant<ParallelPlan, NoPlan> Choose(const ModelSummary& model, const Cluster& cluster,
                                          const PlanWishes& wishes, SearchLimits limits,
                                          SearchReport* report) {
  auto scene = MakeScene(model, cluster, wishes);
  const std::string place = PlaceOf(model, cluster);
  if (!scene.ok()) {
    return NoPlan{.what = "there is nothing to plan",
                  .where = place,
                  .why = scene.failure().message,
                  .fix = "correct the model's summary, the cluster or the global batch"};
  }
  Search search(*std::move(scene), wishes, limits);
  search.Enumerate();
  search.Run();
  if (report != nullptr) *report = search.Report();
  if (search.candidates().empty()) {
    std::vector<std::string> reasons;
    for (const auto& [axis, reason] : search.refusals()) {
      const std::string& because = wishes.because[axis];
      reasons.push_back(because.empty() ? reason : Concat(reason, ", and ", because));
    }
    return NoPlan{.what = "no plan is as it was asked for",
                  .where = place,
                  .why = JoinWith(reasons, "; "),
                  .fix = "leave the axis free, or ask for another value"};
  }
  if (search.Best() == nullptr) {
    const SmallestChange change = ChangeThatFits(search.scene(), SmallestOf(search), model, wishes);
    return NoPlan{.what = "the model does not fit",
                  .where = place,
                  .why = change.why,
                  .fix = change.fix,
                  .lacks_memory = true};
  }
  search.LookAtOtherKinds();
  const Found& best = *search.Best();
  ParallelPlan plan = *best.plan;
  if (plan.stages.size() > 1) {
    plan = PlanOf(search.scene(), best.shape, Evened(search.scene(), best.shape, best.cut));
  }
  plan.model = DigestOf(model);
  if (wishes.execution != &OurExecution()) plan.profile = wishes.execution->name;
  AddUtilization(model, cluster, &plan);
  plan.bound = std::min(search.bound(), plan.predicted.step);
  plan.rejected = RejectedOf(search, best);
  const ParallelPlan* next = nullptr;
  for (const auto& [kind, found] : search.by_kind()) {
    if (&found == &best || !found.plan.has_value()) continue;
    if (next == nullptr || found.plan->predicted.step < next->predicted.step) {
      next = &*found.plan;
    }
  }
  plan.because = BecauseOf(search.scene(), plan, best.equal_shares, next);
  return plan;
}

// The wishes without those that the user gave for a plan; those of annotations, which have a
// sentence, stay. `axes` gets the names of the others.
PlanWishes Freed(PlanWishes wishes, std::vector<std::string_view>& axes) {
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    if (wishes.only[axis].empty() || !wishes.because[axis].empty()) continue;
    wishes.only[axis].clear();
    axes.push_back(Axes()[axis]->name);
  }
  return wishes;
}

}  // namespace

std::variant<ParallelPlan, NoPlan> ChoosePlan(const ModelSummary& model, const Cluster& cluster,
                                              const PlanWishes& wishes, SearchLimits limits,
                                              SearchReport* report) {
  auto answer = Choose(model, cluster, wishes, limits, report);
  std::vector<std::string_view> axes;
  const PlanWishes free = Freed(wishes, axes);
  auto* best = std::get_if<ParallelPlan>(&answer);
  if (axes.empty()) return answer;
  const auto other = Choose(model, cluster, free, limits, nullptr);
  const auto* without = std::get_if<ParallelPlan>(&other);
  if (without == nullptr) return answer;
  if (best == nullptr) {
    auto& none = std::get<NoPlan>(answer);
    none.fix = Concat("leave out ", JoinWith(axes, " and "), ": then ", WordsOf(*without),
                      " fits; or ", none.fix);
  } else if (WordsOf(*without) != WordsOf(*best)) {
    best->because += WithoutWishes(*best, axes, *without);
  }
  return answer;
}

std::optional<ParallelPlan> AnyPlan(const ModelSummary& model, const Cluster& cluster,
                                    const PlanWishes& wishes, SearchLimits limits) {
  auto scene = MakeScene(model, cluster, wishes);
  if (!scene.ok()) return std::nullopt;
  Search search(*std::move(scene), wishes, limits);
  search.Enumerate();
  return search.Any();
}

bool Fits(const ModelSummary& model, const Cluster& cluster, const PlanWishes& wishes,
          SearchLimits limits) {
  return AnyPlan(model, cluster, wishes, limits).has_value();
}

std::string WhyNot(const ModelSummary& model, const Cluster& cluster, const PlanWishes& wishes,
                   const ParallelPlan& chosen, AxisId axis, uint32_t value) {
  const std::string asked =
      Concat(Axes()[static_cast<size_t>(axis)]->name, " ", ValueText(axis, value));
  const std::vector<uint32_t>& only = wishes.OnlyOf(axis);
  const std::string& because = wishes.because[static_cast<size_t>(axis)];
  if (!because.empty() && std::find(only.begin(), only.end(), value) == only.end()) {
    return Concat(asked, ": ", because);
  }
  if (ShapeOf(chosen).*Axes()[static_cast<size_t>(axis)]->field == value) {
    return Concat(asked, ": the plan has this value already: ", WordsOf(chosen));
  }
  PlanWishes narrow = wishes;
  narrow.OnlyOf(axis) = {value};
  const auto answer = Choose(model, cluster, narrow, {}, nullptr);
  if (const auto* none = std::get_if<NoPlan>(&answer)) {
    return none->why.starts_with(asked) ? none->why : Concat(asked, ": ", none->why);
  }
  const auto& other = std::get<ParallelPlan>(answer);
  const double ratio = other.predicted.step / chosen.predicted.step - 1;
  if (ratio < 0.005) {
    return Concat(asked, ": ", WordsOf(other), " takes as long, ",
                  SecondsText(other.predicted.step));
  }
  return Concat(asked, ": the best such plan, ", WordsOf(other), ", takes ",
                SecondsText(other.predicted.step), ", ", PercentText(ratio),
                " longer: ", SlowerBecause(other, chosen));
}

}  // namespace paceline::plan
