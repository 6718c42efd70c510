// At the end of a run, the ledger that is folded from the journal must have the times that were.
//
// The truth of a world's time, by what its group of ranks did, is one of these:
//
//   formed ── starts ──▶ first step ── steps, or stands still ──▶ last step ── dead ──▶ ended
//
// A step up to the highest one that was done before is redone. The slots and the borders of a world
// are those of the journal: they are decisions, not observations. Only runs count whose journal can
// tell it all: the ranks tell steps, each heartbeat is simulated, one master saw everything, and
// its clock was not stepped.
//
// A master that stands still while a world makes its first step hears of it afterwards. It reads
// the oldest report first, which was sent at once and so tells no age, and the record that the
// world trains has the time at which it was read. Until then the ledger counts the start of that
// world, and no later report says otherwise. So that much of the start may be too much.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "paceline/base/number_text.h"
#include "paceline/core/detect/detectors.h"
#include "paceline/core/goodput/ledger.h"
#include "paceline/sim/check/all.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

using core::TimeClass;

// Runs are short and full of faults, so that one late report weighs much. What is beyond this part
// of all time is a fault of the ledger.
constexpr double kGross = 0.25;

// A world of the journal, in virtual time.
struct LedgerWorld {
  Generation first;
  Generation last;  // also those that a single node used without a master
  Instant from;
  Instant until;
  double slots = 0;
};

struct SlotTimes {
  double productive = 0;
  double evaluation = 0;
  double checkpoint = 0;
  double data = 0;
  double stepped() const { return productive + evaluation + checkpoint + data; }
  double redone = 0;
  double start = 0;  // until the first step is done
  double dead = 0;   // no step until the world's end
  // Stood still and went on, as by a frozen host. No record tells that: it counts as a step.
  double paused = 0;
  double resolution = 0;  // what reports can miss: for each world an interval and a step
};

class LedgerRight final : public Check {
 public:
  void Decided(SimWorld& world, const Turn& turn) override {
    const Duration skew = turn.now - world.queue().now();
    if (has_skew_ && skew != skew_) is_stepped_ = true;
    skew_ = skew;
    has_skew_ = true;
  }
  void Restored(SimWorld&) override { ++masters_; }

  void AtQuiet(SimWorld& world) override {
    const std::vector<core::Record>& records = world.master().durable();
    const Options& options = world.options();
    const bool is_told = options.tells_steps && options.heartbeats_each;
    if (!is_told || is_stepped_ || masters_ > 1 || records.empty()) return;
    core::GoodputLedger ledger;
    for (const core::Record& record : records) ledger.Fold(record);
    const Instant now = world.queue().now() + skew_;
    const core::GoodputReport report = ledger.At(now);
    if (report.allocated() <= 0) return;
    const SlotTimes truth = TruthOf(world, records);
    const SlotTimes told{
        .productive = report.Of(TimeClass::kProductive) + report.Of(TimeClass::kUnknown),
        .evaluation = report.Of(TimeClass::kEvaluation),
        .checkpoint = report.Of(TimeClass::kCheckpointStall),
        .data = report.Of(TimeClass::kDataWait),
        .redone = report.Of(TimeClass::kRedone),
        .start = report.Of(TimeClass::kFirstStart) + report.Of(TimeClass::kRestart) +
                 report.Of(TimeClass::kRestore),
        .dead = report.Of(TimeClass::kDetection) + report.Of(TimeClass::kHang)};
    const double limit = truth.resolution + kGross * report.allocated();
    double allowed = limit;
    const auto compare = [&](std::string_view what, double has, double was) {
      if (std::abs(has - was) <= allowed) return;
      world.Fail("ledger_right", std::string(what) + ": the ledger has " + FixedText(has, 1) +
                                     " slot-seconds, and " + FixedText(was, 1) + " were");
    };
    compare("start", told.start, truth.start);
    compare("redone", told.redone, truth.redone);
    compare("steps, detection and hangs", told.stepped() + told.redone + told.dead,
            truth.stepped() + truth.redone + truth.dead + truth.paused);
    if (!options.phases.is_told) return;
    // The newest minute is not divided yet.
    const double stepped = told.stepped() + told.redone + told.dead;
    allowed += std::max(0.0, stepped - report.divided);
    compare("evaluation", told.evaluation, truth.evaluation);
    compare("checkpoint stall", told.checkpoint, truth.checkpoint);
    compare("data wait", told.data, truth.data);
    // Ranks that stand still tell that they work, and so do those of a world that has ended.
    if (report.overcounted > limit + truth.dead + truth.paused) {
      world.Fail("ledger_right", FixedText(report.overcounted, 1) +
                                     " slot-seconds are told beyond the time that there was");
    }
  }

 private:
  std::vector<LedgerWorld> Worlds(Instant now, const std::vector<core::Record>& records) const {
    std::vector<LedgerWorld> worlds;
    bool is_open = false;
    for (const core::Record& record : records) {
      const Instant at = record.at - skew_;
      const auto* formed = std::get_if<core::WorldFormed>(&record.fact);
      const bool ends = formed != nullptr ||
                        std::holds_alternative<core::WorldEnded>(record.fact) ||
                        std::holds_alternative<core::StopDecided>(record.fact) ||
                        std::holds_alternative<core::JobFinished>(record.fact);
      if (is_open && ends) {
        worlds.back().until = at;
        is_open = false;
      }
      if (formed == nullptr) continue;
      const Generation first = formed->world.generation;
      double slots = 0;
      for (const Seat& seat : formed->world.seats) slots += seat.rank_count;
      worlds.push_back({first, std::max(first, formed->solo_last), at, now, slots});
      is_open = true;
    }
    return worlds;
  }

  SlotTimes TruthOf(SimWorld& world, const std::vector<core::Record>& records) const {
    SlotTimes sums;
    const Options& options = world.options();
    const std::vector<Workload::Stretch> stretches = world.workload().Stretches();
    int64_t highest = 0;
    for (const LedgerWorld& one : Worlds(world.queue().now(), records)) {
      const Instant began = AddWorld(options, one, stretches, &highest, &sums);
      const Duration missed = core::HeartbeatInterval(options.spec) * 2 + options.step_time;
      const Duration unheard = Unheard(world.master().pauses(), began, missed);
      sums.resolution += one.slots * (missed + unheard).ToSecondsF();
    }
    return sums;
  }

  // How long after its first step a world went unheard because the master stood still. The report
  // of that step takes up to `missed` to arrive.
  static Duration Unheard(const std::vector<Master::Pause>& pauses, Instant began,
                          Duration missed) {
    Duration longest;
    for (const Master::Pause& pause : pauses) {
      const bool hides = pause.from <= began + missed && pause.until > began;
      if (hides) longest = std::max(longest, pause.until - began);
    }
    return longest;
  }

  // Returns when its first step was done: `one.until` if none was.
  static Instant AddWorld(const Options& options, const LedgerWorld& one,
                          const std::vector<Workload::Stretch>& stretches, int64_t* highest,
                          SlotTimes* sums) {
    const double step = options.step_time.ToSecondsF();
    Instant began = one.until;  // its first step was done
    Instant last;
    double stepped = 0;
    double repeated = 0;
    for (const Workload::Stretch& stretch : stretches) {
      if (stretch.generation < one.first || stretch.generation > one.last) continue;
      Instant from = std::max(stretch.from, one.from);
      const Instant until = std::min(stretch.until, one.until);
      const auto steps = static_cast<int64_t>((until - stretch.from).ToSecondsF() / step);
      if (began == one.until) from = std::min(until, from + options.step_time);
      if (until <= from) continue;
      began = std::min(began, from);
      last = until;
      const double seconds = (until - from).ToSecondsF();
      stepped += seconds;
      const double behind = static_cast<double>(*highest - stretch.done) * step;
      repeated += std::clamp(behind, 0.0, seconds);
      *highest = std::max(*highest, stretch.done + steps);
      // What comes after the last step of the script is its end.
      if (options.total_steps > 0 && stretch.done + steps >= options.total_steps) {
        stepped += (one.until - until).ToSecondsF();
        last = one.until;
      }
    }
    const double kept = one.slots * (stepped - repeated);
    const PhaseOptions told = options.phases.is_told ? options.phases : PhaseOptions();
    const double evaluation = kept * told.evaluation / 1000;
    const double checkpoint = kept * told.checkpoint / 1000;
    const double data = kept * told.data / 1000;
    sums->evaluation += evaluation;
    sums->checkpoint += checkpoint;
    sums->data += data;
    sums->productive += kept - evaluation - checkpoint - data;
    sums->redone += one.slots * repeated;
    sums->start += one.slots * (began - one.from).ToSecondsF();
    if (last == Instant()) return one.until;
    sums->dead += one.slots * (one.until - last).ToSecondsF();
    sums->paused += one.slots * ((last - began).ToSecondsF() - stepped);
    return began;
  }

  Duration skew_;  // the master's clock, less virtual time
  bool has_skew_ = false;
  bool is_stepped_ = false;
  int masters_ = 0;  // that began with a journal
};

}  // namespace

std::unique_ptr<Check> MakeLedgerRight() { return std::make_unique<LedgerRight>(); }

}  // namespace paceline::sim
