#pragma once

// The job: every decision of the control plane, as a pure machine.
//
//   Actions = Step(now, event)      total, instant, no I/O, no clock, no chance but its arguments
//   Restore(record)                 folds one durable fact, in journal order, before the first Step
//   NextDeadline()                  the only timer: call Step(now, TimePassed{}) then
//
// State has two halves. JobState is durable: it changes only in Apply(record), so fold(records)
// equals it after every step. NodeLink is volatile: connections, last heartbeats, steps. A new
// master rebuilds it from the nodes' first heartbeats.
//
//              JobSubmitted            enough nodes
//   (empty) ───────────────▶ kWaiting ─────────────▶ kStarting ──all ranks stepping──▶ kRunning
//                               ▲  below minimum         │ rank or node fails             │
//                               └────────────────────────┴────────◀── new generation ─────┘
//   any ── StopRequested / ladder exhausted / all ranks done ──▶ kStopping ─no rank left▶ kFinished

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/action.h"
#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/core/record.h"

namespace paceline::core {

struct DrillOutlook;

class Job {
 public:
  Job();

  // Folds a record of the journal. Records must come in order of seq.
  void Restore(const Record& record);

  Actions Step(Instant now, const Event& event);

  // Why the job cannot have so many nodes; "": it can, and takes SizeRequested.
  std::string WhyNotSize(uint32_t nodes);

  // What a drill would cost now, or why the job is not struck; world/drill.h.
  DrillOutlook OutlookOf(const DrillRequested& drill);

  // Instant::Max() when nothing is due.
  Instant NextDeadline() const;

  const JobState& state() const { return state_; }
  const NodeMap<NodeLink>& links() const { return links_; }
  // The highest absolute step that a rank reported, -1: none; and the newest checkpoint.
  int64_t step() const { return watch_.step; }
  int64_t saved_step() const { return watch_.saved_step; }
  // The highest step of the training that a rank of the current world reported; -1: none. The
  // second is the number of optimizer steps in this world, the highest of all ranks.
  int64_t world_step() const { return watch_.world_step; }
  int64_t step_count() const { return watch_.step_count; }
  const CheckpointLedger& checkpoints() const { return watch_.checkpoints; }

  // The newest verdict on a hang that lasts, if nothing was done about it; told_seq 0: none.
  const HangWatch& hang() const { return watch_.hang; }

  // One sentence: what the job waits for now, or that it trains. Shown by `paceline status`.
  std::string Pending() const;

 private:
  JobState state_;
  NodeMap<NodeLink> links_;
  Watch watch_;
};

}  // namespace paceline::core
