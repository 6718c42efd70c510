// A rank's side of its slot on the progress page.
//
// The idea: reporting a step is four stores to shared memory; no call can block or fail, whatever
// became of the agent. Exactly one process writes a slot. The first one that opens a session claims
// it; a child that the rank forks or spawns finds it claimed and is refused, so a data loader's
// worker cannot report steps. Not thread-safe: in Python the interpreter lock serialises the calls.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "paceline/base/result.h"
#include "paceline/client/page_file.h"

namespace paceline::client {

inline constexpr double kLossUnknown = std::numeric_limits<double>::quiet_NaN();

struct SessionPlace {
  std::string page_path;
  uint32_t slot = 0;
  uint64_t generation = 0;
};

class Session {
 public:
  // Claims the slot for this process. kFenced when the slot belongs to another generation; kNotOurs
  // when another process has claimed it; PageFile::Open's failures.
  static Result<Session> Open(const SessionPlace& place);

  // Step `step` of the whole training is done. Steps only rise: a lower one counts as a report, but
  // shows no progress.
  void Step(int64_t step, double loss);
  // One more step is done since this process started. Ignored once Step was used: the script knows
  // better.
  void CountStep();
  // The optimizer's own step was `step` when this attempt began: steps are counted on from there.
  // Ignored after Step, and after the first step.
  void BeganAt(int64_t step);
  // A checkpoint of step `step` is complete.
  void Saved(int64_t step);
  // The script has written a checkpoint to a path by itself.
  void FileSaved();
  // The script begins; torch's hook is in place; the script failed (returns the time); the store's
  // port is taken.
  void Entered();
  void HookInstalled();
  int64_t Failed();
  void PortTaken();

  // Highest step so far, -1 = none; how many reports.
  int64_t step() const;
  uint64_t step_count() const;

 private:
  Session(PageFile page, PageSlot* slot) : page_(std::move(page)), slot_(slot) {}
  void Report(int64_t step, double loss);

  PageFile page_;
  PageSlot* slot_;  // inside page_
};

}  // namespace paceline::client
