#include "paceline/core/goodput/ledger.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

namespace paceline::core {

namespace {

size_t Index(TimeClass time_class) { return static_cast<size_t>(time_class); }

double Sum(const ClassSeconds& sums) { return std::accumulate(sums.begin(), sums.end(), 0.0); }

// part ÷ whole, clamped to 0 … 1 because sums of doubles are not exact; 0 if `whole` is 0.
double Part(double part, double whole) {
  return whole <= 0 ? 0 : std::clamp(part / whole, 0.0, 1.0);
}

bool IsDearer(const IncidentCost& a, const IncidentCost& b) {
  if (a.slot_seconds != b.slot_seconds) return a.slot_seconds > b.slot_seconds;
  return std::pair(a.world_ended, a.cause) < std::pair(b.world_ended, b.cause);
}

}  // namespace

struct GoodputLedger::Visitor {
  GoodputLedger& ledger;
  const Record& record;

  void operator()(const JobCreated& fact) const {
    const JobSpec& spec = fact.spec;
    ledger.ranks_per_node_ = spec.nproc_per_node;
    ledger.wanted_slots_ = ledger.ranks_per_node_ * spec.nodes_max;
  }

  void operator()(const SizeChosen& fact) const {
    ledger.wanted_slots_ = ledger.ranks_per_node_ * fact.nodes;
  }

  void operator()(const NodeJoined& fact) const {
    ledger.nodes_[fact.node] = {.slots = static_cast<double>(fact.slots)};
  }

  void operator()(const NodeLost& fact) const {
    const auto it = ledger.nodes_.find(fact.node);
    const bool was_seated = it != ledger.nodes_.end() && it->second.is_seated;
    if (was_seated && !fact.finished) {
      ledger.has_failed_ = true;
      ledger.silent_since_ = record.at - fact.silent_for;
    }
    ledger.nodes_.erase(fact.node);
  }
  void operator()(const NodeLeft& fact) const { ledger.nodes_.erase(fact.node); }
  void operator()(const NodeEvicted& fact) const { ledger.nodes_.erase(fact.node); }

  void operator()(const RankFailed& fact) const {
    ledger.has_failed_ = true;
    NoteDead(fact.died_for);
  }

  void NoteDead(Duration age) const {
    if (age > Duration()) ledger.dead_since_ = std::min(ledger.dead_since_, record.at - age);
  }

  void operator()(const HangJudged& fact) const {
    if (fact.acts) return NoteDead(fact.quiet_for);
    const TimeClass stage = ledger.stage_;
    const bool trains = stage == TimeClass::kProductive || stage == TimeClass::kRedone;
    if (!fact.end_follows || !trains) return;
    ledger.MoveHere(record.at - fact.quiet_for, TimeClass::kHang);
    ledger.stage_after_hang_ = stage;
    ledger.hang_ = record.seq;
    ledger.stage_ = TimeClass::kHang;  // not Enter(), because the steps before may still be lost
  }

  void operator()(const HangEnded&) const {
    if (ledger.stage_ != TimeClass::kHang) return;
    ledger.EndHang();
    ledger.stage_ = ledger.stage_after_hang_;
    if (ledger.has_progressed_) ledger.CloseIncident();
  }

  void operator()(const WorldFormed& fact) const {
    for (auto& [id, node] : ledger.nodes_) node.is_seated = fact.world.SeatOf(id) >= 0;
    ledger.has_progressed_ = false;
    ledger.start_ = 0;
    ledger.start_class_ = ledger.has_world_ ? TimeClass::kRestart : TimeClass::kFirstStart;
    if (!ledger.has_world_) ledger.before_world_ = Sum(ledger.sums_);
    ledger.Enter(ledger.start_class_);
    ledger.has_world_ = true;
  }

  // A node restarted its ranks itself while there was no master. Nobody recorded when.
  void operator()(const SoloRestarted&) const {
    ledger.start_ = 0;
    ledger.start_class_ = TimeClass::kRestart;
    ledger.Enter(TimeClass::kRestart);
  }

  void operator()(const TimeAccounted& fact) const {
    if (ledger.running_) ledger.steps_here_ = std::max(ledger.steps_here_, fact.steps);
    const auto since = ledger.told_.Take(fact);
    if (!since.has_value()) return;
    PartSeconds told = since->seconds;
    if (ledger.stage_ == ledger.start_class_) return ledger.DivideStart(&told);
    const bool steps =
        ledger.stage_ == TimeClass::kProductive || ledger.stage_ == TimeClass::kRedone;
    if (steps && since->is_known) return ledger.DivideSteps(told, since->is_first);
    for (Training& stretch : ledger.training_) stretch.is_divided = true;
  }

  void operator()(const WorldRunning& fact) const {
    ledger.has_failed_ = false;
    ledger.silent_since_ = ledger.dead_since_ = Instant::Max();
    ledger.running_ = {.began_at = fact.began_at, .knows_step = fact.step >= 0};
    // A world that is past the highest step, or was when its ranks were still arriving, repeats
    // nothing. One that knows only its own steps was charged when the one before ended.
    bool redoes = ledger.is_redoing_ && !ledger.has_progressed_ && fact.step >= 0 &&
                  fact.step <= ledger.step_max_;
    auto& former = ledger.former_;
    if (former.has_value() && fact.step >= 0) {
      const bool counts_anew = fact.is_own_count && fact.began_at == 0 && former->has_kept;
      if (counts_anew) {
        ledger.steps_redone_ += former->lost_steps;
        ledger.Move(former->kept_until, TimeClass::kRedone, &former->training);
        redoes = false;
      } else {
        ledger.steps_redone_ += std::max(int64_t{0}, former->reached - fact.began_at);
      }
      former.reset();
    }
    ledger.Enter(redoes ? TimeClass::kRedone : TimeClass::kProductive);
    if (!redoes && !former.has_value()) ledger.CloseIncident();
  }

  void operator()(const ProgressMade& fact) const {
    if (!fact.evidence.empty() && !fact.is_lasting) return;
    if (fact.evidence.empty()) ledger.LearnStep(fact.step, fact.step_count);
    ledger.has_progressed_ = true;  // the ranks may be past it before all of them have come
    ledger.stage_after_hang_ = TimeClass::kProductive;
    if (ledger.stage_ == TimeClass::kRedone) ledger.Enter(TimeClass::kProductive);
    if (ledger.stage_ == TimeClass::kProductive) ledger.CloseIncident();
  }

  void operator()(const WorldEnded& fact) const {
    // Without a failure the world was ended on purpose, right after a step. Other nodes may have
    // told of steps while one was silent; that counts more. None was made after a rank's death.
    const Instant stood = record.at - fact.still_for;
    const Instant still_since = fact.still_for > Duration() ? stood : ledger.silent_since_;
    if (ledger.has_failed_) {
      ledger.MoveHere(std::min(still_since, ledger.dead_since_), TimeClass::kDetection);
    }
    const Instant kept_until = record.at - fact.lost_work;
    if (fact.step < 0) ledger.MoveHere(kept_until, TimeClass::kRedone);
    if (ledger.running_) {
      const int64_t end = ledger.OwnStep(fact.reached, fact.step);
      const bool has_steps = end >= 0 || fact.step_count > 0;
      const int64_t reached = ledger.CountSteps(end, fact.step_count);
      if (has_steps) ledger.former_.reset();
      if (fact.step < 0) ledger.steps_redone_ += fact.lost_steps;
      if (reached > 0) {
        ledger.former_ = {.reached = reached,
                          .has_kept = fact.lost_work > Duration(),
                          .lost_steps = fact.lost_steps,
                          .kept_until = kept_until,
                          .training = ledger.training_};
      }
    }
    ledger.step_max_ = std::max(ledger.step_max_, fact.step);
    ledger.is_redoing_ = true;
    if (!ledger.open_) {
      const RecordSeq cause = record.causes.empty() ? RecordSeq() : record.causes.front();
      ledger.open_ = {.world_ended = record.seq, .cause = cause};
    }
    ledger.open_->slot_seconds += ledger.unclaimed_;
    ledger.unclaimed_ = 0;
    if (ledger.stage_ != TimeClass::kStopping) ledger.Enter(TimeClass::kDecision);
  }

  void operator()(const WaitBegan&) const {
    if (ledger.stage_ == TimeClass::kDecision) ledger.Enter(TimeClass::kWaiting);
  }

  void operator()(const StopDecided&) const {
    ledger.EndHang();
    ledger.Enter(TimeClass::kStopping);
  }

  void operator()(const JobFinished& fact) const {
    if (ledger.running_) {
      // No rank told steps to the master that recorded the end, or its release was an older one.
      const bool is_silent = fact.reached == 0 && fact.step_count == 0;
      const bool is_further = ledger.OwnStep(fact.reached, fact.step) >= 0;
      const int64_t ran =
          is_silent && is_further ? fact.step - ledger.running_->began_at : fact.step_count;
      const int64_t reached = ledger.CountSteps(fact.reached > 0 ? fact.reached : -1, ran);
      if (reached > 0 || ran > 0) ledger.former_.reset();
      if (reached > 0) ledger.former_ = {.reached = reached, .training = {}};
    }
    ledger.step_max_ = std::max(ledger.step_max_, fact.step);
    ledger.EndHang();
    ledger.CloseIncident();  // the nodes stay: if the job is resumed, they do not join anew
    ledger.Enter(TimeClass::kStopping);
    ledger.is_over_ = true;
  }

  void operator()(const JobResumed&) const {
    ledger.is_over_ = false;
    ledger.is_redoing_ = true;
    ledger.Enter(TimeClass::kWaiting);
  }

  template <typename Fact>
  void operator()(const Fact&) const {}
};

void GoodputLedger::Fold(const Record& record) {
  const auto* took_over = std::get_if<MasterTookOver>(&record.fact);
  const TimeClass before = stage_;
  const bool has_gap = took_over != nullptr && took_over->history != History::kOwn && has_world_;
  if (has_gap) {
    // The copy of the journal ends somewhere before its master died.
    stage_ = TimeClass::kUnknown;
    training_.clear();
    told_.Forget();
  }
  Advance(record.at);
  // Ranks train on without a master, and no record says so. If theirs is no more, its end follows.
  const bool trained = before == TimeClass::kProductive || before == TimeClass::kRedone;
  if (has_gap && trained) stage_ = before;
  moved_.clear();
  std::visit(Visitor{*this, record}, record.fact);
  mfu_.Fold(record.fact, Seated(), steps_executed_ + steps_here_ - steps_redone_);
}

double GoodputLedger::Seated() const {
  return has_world_ ? Sum(sums_) - sums_[Index(TimeClass::kSpare)] - before_world_ : 0;
}

GoodputLedger::Slots GoodputLedger::CountSlots() const {
  Slots slots;
  for (const auto& [id, node] : nodes_) (node.is_seated ? slots.seated : slots.other) += node.slots;
  // Without a world nobody is a spare: all wait for the first seat.
  if (slots.seated == 0) std::swap(slots.seated, slots.other);
  return slots;
}

void GoodputLedger::Advance(Instant at) {
  passed_.reset();
  if (last_ != Instant() && !is_over_) {
    const double seconds = (at - last_).ToSecondsF();
    passed_ = stage_;
    const Slots slots = CountSlots();
    Add(stage_, slots.seated * seconds);
    sums_[Index(TimeClass::kSpare)] += slots.other * seconds;
    if (has_world_) wanted_ += wanted_slots_ * seconds;
    AddTraining(last_, at, slots.seated);
  }
  last_ = at;
}

void GoodputLedger::AddTraining(Instant from, Instant until, double slots) {
  const bool steps = stage_ == TimeClass::kProductive || stage_ == TimeClass::kRedone;
  if (!steps || until <= from) return;
  const bool goes_on = !training_.empty() && training_.back().slots == slots &&
                       training_.back().until == from && training_.back().time_class == stage_ &&
                       !training_.back().is_divided;
  if (!goes_on) {
    if (training_.size() == kTrainingMax) training_.erase(training_.begin());
    training_.push_back({.since = from, .until = from, .slots = slots, .time_class = stage_});
  }
  training_.back().until = until;
}

void GoodputLedger::Enter(TimeClass stage) {
  if (stage_ != stage) training_.clear();
  const bool steps = stage == TimeClass::kProductive || stage == TimeClass::kRedone;
  if (!steps) EndDivision();
  stage_ = stage;
}

void GoodputLedger::EndDivision() {
  overcounted_ += carry_;
  carry_ = 0;
}

void GoodputLedger::DivideStart(PartSeconds* told) {
  constexpr std::pair<TimePart, TimeClass> kParts[] = {{TimePart::kRestore, TimeClass::kRestore},
                                                       {TimePart::kCompile, TimeClass::kCompile}};
  for (const auto& [part, time_class] : kParts) {
    double& seconds = (*told)[static_cast<size_t>(part)];
    const double taken = std::min(seconds, start_);
    seconds -= taken;
    start_ -= taken;
    sums_[Index(start_class_)] -= taken;
    sums_[Index(time_class)] += taken;
  }
}

void GoodputLedger::DivideSteps(PartSeconds told, bool is_first) {
  double axis = 0;
  for (const Training& stretch : training_) axis += stretch.is_divided ? 0 : stretch.length();
  if (axis <= 0) return;
  if (is_first) {  // no record stands at the first step, so the start is in it, too
    double& start = told[static_cast<size_t>(TimePart::kStart)];
    DivideStart(&told);
    start = std::max(0.0, start - start_);
    const double excess = std::accumulate(told.begin(), told.end(), 0.0) - axis;
    double& work = told[static_cast<size_t>(TimePart::kWork)];
    work = std::max(0.0, work - std::max(0.0, excess));
  }
  const double carried = carry_;
  carry_ = 0;
  for (Training& stretch : training_) {
    if (stretch.is_divided) continue;
    stretch.is_divided = true;
    const double share = stretch.length() / axis;
    PartSeconds part = told;
    for (double& seconds : part) seconds *= share;
    double carry = carried * share;
    const ClassSeconds parts = Divide(part, stretch.length(), &carry);
    carry_ += carry;
    divided_ += stretch.length();
    if (stretch.time_class != TimeClass::kProductive) continue;
    stretch.parts = parts;
    for (size_t i = 0; i < kTimeClasses; ++i) sums_[i] += parts[i];
    sums_[Index(TimeClass::kProductive)] -= Sum(parts);
  }
}

int64_t GoodputLedger::OwnStep(int64_t reached, int64_t step) const {
  if (reached > 0) return reached;
  return step > step_max_ ? step : -1;
}

int64_t GoodputLedger::CountSteps(int64_t step, int64_t count) {
  LearnStep(step, count);
  const bool knows = running_->knows_step && step >= 0;
  steps_executed_ += std::max(int64_t{0}, knows ? step - running_->began_at : count);
  running_.reset();
  steps_here_ = 0;
  return knows ? step : 0;
}

void GoodputLedger::LearnStep(int64_t step, int64_t count) {
  if (!running_ || running_->knows_step || step < 0 || count <= 0) return;
  *running_ = {.began_at = std::max(int64_t{0}, step - count), .knows_step = true};
  const int64_t repeated = former_ ? former_->reached - running_->began_at : 0;
  former_.reset();
  if (repeated <= 0) return;
  steps_redone_ += repeated;
  MoveHere(Instant(), TimeClass::kRedone);
}

void GoodputLedger::Add(TimeClass time_class, double slot_seconds) {
  sums_[Index(time_class)] += slot_seconds;
  if (time_class == start_class_) start_ += slot_seconds;
  if (time_class == TimeClass::kProductive) return;
  if (open_) {
    open_->slot_seconds += slot_seconds;
  } else if (time_class == TimeClass::kHang) {
    unclaimed_ += slot_seconds;
  }
}

void GoodputLedger::Move(Instant from, TimeClass time_class, std::vector<Training>* training) {
  while (!training->empty() && training->back().until > from) {
    Training& stretch = training->back();
    const Instant begin = std::max(from, stretch.since);
    const double moved = (stretch.until - begin).ToSecondsF() * stretch.slots;
    TakeOut(&stretch, moved, time_class);
    sums_[Index(time_class)] += moved;
    if (stretch.time_class == TimeClass::kProductive) {
      (open_ ? open_->slot_seconds : unclaimed_) += moved;
    }
    moved_.push_back({begin, stretch.until, time_class});
    stretch.until = begin;
    if (begin == stretch.since) training->pop_back();
  }
}

// Lost steps are of all parts alike. A rank that stood still told nothing, or worked as far as it
// knew: that goes first.
void GoodputLedger::TakeOut(Training* stretch, double seconds, TimeClass time_class) {
  const double parts = Sum(stretch->parts);
  const double own = stretch->length() - parts;
  double& unknown = stretch->parts[Index(TimeClass::kUnknown)];
  double share = stretch->length() <= 0 ? 0 : seconds / stretch->length();
  if (time_class != TimeClass::kRedone) {
    const double first = std::min(unknown, seconds);
    unknown -= first;
    sums_[Index(TimeClass::kUnknown)] -= first;
    seconds -= first;
    const double rest = std::max(0.0, seconds - own);
    share = rest <= 0 ? 0 : std::min(1.0, rest / Sum(stretch->parts));
  }
  for (size_t i = 0; i < kTimeClasses; ++i) {
    const double taken = stretch->parts[i] * share;
    stretch->parts[i] -= taken;
    sums_[i] -= taken;
    seconds -= taken;
  }
  sums_[Index(stretch->time_class)] -= seconds;
}

void GoodputLedger::CloseIncident() {
  is_redoing_ = false;
  unclaimed_ = 0;
  if (!open_) return;
  open_->is_over = true;
  Keep(*open_);
  open_.reset();
}

std::optional<IncidentCost> GoodputLedger::OwnHang(double slot_seconds) const {
  if (stage_ != TimeClass::kHang || open_.has_value()) return std::nullopt;
  return IncidentCost{.world_ended = {}, .cause = hang_, .slot_seconds = slot_seconds};
}

void GoodputLedger::EndHang() {
  std::optional<IncidentCost> hang = OwnHang(unclaimed_);
  if (!hang.has_value()) return;
  unclaimed_ = 0;
  hang->is_over = true;
  Keep(*hang);
}

void GoodputLedger::Keep(const IncidentCost& incident) {
  incidents_.push_back(incident);
  if (incidents_.size() <= kIncidentsMax) return;
  incidents_.erase(std::max_element(incidents_.begin(), incidents_.end(), IsDearer));
}

// Cheap at any number of records: adds the time since the last one to a copy of the sums.
GoodputReport GoodputLedger::At(Instant now) const {
  GoodputReport report{.slot_seconds = sums_,
                       .divided = divided_,
                       .overcounted = overcounted_ + carry_,
                       .steps_executed = steps_executed_,
                       .steps_redone = steps_redone_,
                       .incidents = incidents_,
                       .mfu = mfu_.Report()};
  const bool runs = last_ != Instant() && !is_over_;
  const double seconds = runs ? std::max(Duration(), now - last_).ToSecondsF() : 0;
  const Slots slots = CountSlots();
  const double passed = slots.seated * seconds;
  report.slot_seconds[Index(stage_)] += passed;
  report.slot_seconds[Index(TimeClass::kSpare)] += slots.other * seconds;
  if (open_) {
    report.incidents.push_back(*open_);
    if (stage_ != TimeClass::kProductive) report.incidents.back().slot_seconds += passed;
  }
  if (const auto hang = OwnHang(unclaimed_ + passed)) report.incidents.push_back(*hang);
  std::sort(report.incidents.begin(), report.incidents.end(), IsDearer);
  if (!has_world_) return report;
  const double seated = report.allocated() - report.Of(TimeClass::kSpare) - before_world_;
  report.runtime = Part(report.Of(TimeClass::kProductive), seated);
  report.scheduling = Part(seated, wanted_ + wanted_slots_ * seconds);
  return report;
}

double GoodputReport::allocated() const { return Sum(slot_seconds); }

}  // namespace paceline::core
