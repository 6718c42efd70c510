#pragma once

// Where the time of a job went, from its records alone: the same numbers while the job runs, after
// its end, and from a copy of its journal.
//
// The idea: each node has its slots from NodeJoined until it is lost, leaves or is taken out. The
// records divide the time of the job into stretches, and a stretch puts all seated slots into one
// class (see time_class.h); slots without a seat are spare. Some records say afterwards that a part
// of the training before them was none: a node had been silent for some time, a rank had hung, or
// work since the last checkpoint is lost. That part moves to another class.
//
// Which steps are repeated is known from the step at which the next world begins. If its ranks tell
// no step of the training, or one that begins at 0 again although checkpoints were written, the
// work since the last checkpoint counts.
//
// What the ranks told of their phases (TimeAccounted) divides the stretches of steps, from one such
// record to the next, and takes restoring and compiling out of the start before them. A world whose
// ranks told nothing is not divided: its steps are productive as a whole. Repeated steps, hangs and
// the time after the training are not divided either.
//
// Time is counted in slot-seconds. The time of an ended job does not count until it is resumed.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/goodput/mfu.h"
#include "paceline/core/goodput/time_class.h"
#include "paceline/core/goodput/told_time.h"
#include "paceline/core/record.h"

namespace paceline::core {

// The end of a world and what it cost until the next world had made up for it, or a hang that ended
// no world. A hang that ends its world is a part of that incident, as is one in repeated steps.
struct IncidentCost {
  RecordSeq world_ended;    // 0: a hang
  RecordSeq cause;          // the first cause of the record, or the hang's HangJudged; 0: none
  double slot_seconds = 0;  // all classes but productive and spare; of a hang, its own time
  bool is_over = false;     // the next world makes new steps, or the hang has ended
};

struct GoodputReport {
  ClassSeconds slot_seconds = {};  // by TimeClass
  // Of the steps that ranks made, how much their phases divided; and what they told in excess of
  // the time that there was, which is in no class.
  double divided = 0;
  double overcounted = 0;
  // Steps of all worlds that have ended, and how many of them were repeated or lost.
  int64_t steps_executed = 0;
  int64_t steps_redone = 0;
  std::vector<IncidentCost> incidents;  // the costliest first

  double Of(TimeClass time_class) const { return slot_seconds[static_cast<size_t>(time_class)]; }
  double allocated() const;  // sum of all classes
  // Productive ÷ allocated without spares, since the first world was formed: 0 … 1. 0 before it.
  double runtime = 0;
  // Seated ÷ wanted: 0 … 1. 0 before the first world.
  double scheduling = 0;
  MfuReport mfu;
};

class GoodputLedger {
 public:
  static constexpr size_t kIncidentsMax = 64;  // the cheapest are forgotten beyond it
  // Stretches that may still move; older ones do not. With a record a minute that is four hours.
  static constexpr size_t kTrainingMax = 256;

  // Records in order of seq.
  void Fold(const Record& record);
  GoodputReport At(Instant now) const;

  // For a picture of the time. What the seated slots do since the last record,
  TimeClass stage() const { return stage_; }
  bool is_over() const { return is_over_; }
  Instant last() const { return last_; }
  // what they did from the record before it until the last one; none: the job was over,
  const std::optional<TimeClass>& passed() const { return passed_; }
  // and which time of steps the last record moved to another class.
  struct Moved {
    Instant from;
    Instant until;
    TimeClass time_class = TimeClass::kUnknown;
  };
  const std::vector<Moved>& moved() const { return moved_; }

 private:
  struct NodeTime {
    double slots = 0;
    bool is_seated = false;
  };
  // A stretch of steps, new or repeated, whose time may still move to another class.
  struct Training {
    Instant since;
    Instant until;
    double slots = 0;
    TimeClass time_class = TimeClass::kProductive;
    bool is_divided = false;  // by what the ranks told, or nothing is known; it does not grow
    ClassSeconds parts = {};  // of it that are not productive
    double length() const { return (until - since).ToSecondsF() * slots; }
  };
  // The world that trains.
  struct Running {
    int64_t began_at = 0;
    bool knows_step = false;  // steps of the whole training, not only of this world
  };
  // The world before it, until it is known which of its steps are lost.
  struct Former {
    int64_t reached = 0;    // its last step
    bool has_kept = false;  // it wrote checkpoints; the next two are those after the last one
    int64_t lost_steps = 0;
    Instant kept_until;
    std::vector<Training> training;
  };
  // Folds one kind of fact; ledger.cc.
  struct Visitor;

  // Adds the time until `at` to the classes.
  void Advance(Instant at);
  void Enter(TimeClass stage);
  void AddTraining(Instant from, Instant until, double slots);
  void Add(TimeClass time_class, double slot_seconds);
  // Divides the time since the last such record by what the ranks told.
  void DivideSteps(PartSeconds told, bool is_first);
  // Takes restoring and compiling out of the start of this world. What has no room there stays in
  // `*told`.
  void DivideStart(PartSeconds* told);
  // Takes so many slot-seconds out of a stretch, its end.
  void TakeOut(Training* stretch, double seconds, TimeClass time_class);
  void EndDivision();
  // Takes the time after `from` out of these stretches of steps and adds it to `time_class`.
  void Move(Instant from, TimeClass time_class, std::vector<Training>* training);
  void MoveHere(Instant from, TimeClass time_class) { Move(from, time_class, &training_); }
  // The training world's ranks tell the step of the training only now: `count` steps after its
  // begin. All its steps so far are repeated ones, up to the former world's last step.
  void LearnStep(int64_t step, int64_t count);
  // The last step of the world that a record ends, -1 if it is not known. `step` is the job's
  // highest one, so it is this world's only if no world before was as far.
  int64_t OwnStep(int64_t reached, int64_t step) const;
  // The steps of the training world count, too. Returns its last step; 0: not known.
  int64_t CountSteps(int64_t step, int64_t count);
  void CloseIncident();
  // The hang that lasts, as an incident of its own; none: there is none, or it is a part of another
  // incident. The second value is the hang's time.
  std::optional<IncidentCost> OwnHang(double slot_seconds) const;
  void EndHang();
  void Keep(const IncidentCost& incident);
  struct Slots {
    double seated = 0;
    double other = 0;
  };
  Slots CountSlots() const;
  // The time of seated slots since the first world was formed, until the last record.
  double Seated() const;

  std::map<NodeId, NodeTime> nodes_;  // joined and not gone
  ClassSeconds sums_ = {};
  ToldTime told_;
  double start_ = 0;  // slot-seconds of this world's start that are in the next class
  TimeClass start_class_ = TimeClass::kFirstStart;
  double carry_ = 0;  // see Divide()
  double divided_ = 0;
  double overcounted_ = 0;
  double before_world_ = 0;  // the sum of all classes when the first world was formed
  double wanted_ = 0;        // slot-seconds since then
  double wanted_slots_ = 0;  // of the whole job, at the size that was chosen
  double ranks_per_node_ = 0;
  TimeClass stage_ = TimeClass::kWaiting;  // of seated slots
  bool has_world_ = false;                 // the first world was formed
  bool is_over_ = false;                   // the job has ended; time stands still
  bool is_redoing_ = false;                // lost steps are not all repeated yet
  bool has_progressed_ = false;            // the newest world has made a new highest step
  bool has_failed_ = false;                // a part of the world that trains
  TimeClass stage_after_hang_ = TimeClass::kProductive;  // meaningful in a hang
  RecordSeq hang_;                                       // its HangJudged; the same
  Instant silent_since_ = Instant::Max();  // a lost node of the world that trains; Max: none
  Instant dead_since_ = Instant::Max();    // a rank of it, dead or hung; Max: not known
  Instant last_;
  std::optional<TimeClass> passed_;
  std::vector<Moved> moved_;
  std::vector<Training> training_;  // of the present stage and the hangs in it, oldest first
  std::optional<Running> running_;
  std::optional<Former> former_;
  int64_t step_max_ = 0;
  int64_t steps_executed_ = 0;
  int64_t steps_redone_ = 0;
  int64_t steps_here_ = 0;  // of the world that trains, as told by TimeAccounted
  MfuMeter mfu_;
  double unclaimed_ = 0;  // slot-seconds that Move() or a hang took before their WorldEnded
  std::optional<IncidentCost> open_;
  std::vector<IncidentCost> incidents_;  // over
};

}  // namespace paceline::core
