// A rank's end of its slot on the progress page.
//
// Reporting a step is four stores to shared memory. No call can block or fail, whatever happens to
// the agent. One process writes a slot: the first that opens a session claims it. A child that the
// rank forks or spawns finds the slot claimed and is refused, so a data loader's worker cannot
// report steps. Not thread-safe: in Python the GIL serialises the calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/base/result.h"
#include "paceline/client/page_file.h"
#include "paceline/model/loss_watch.h"

namespace paceline::client {

struct SessionPlace {
  std::string page_path;
  uint32_t slot = 0;
  uint64_t generation = 0;
};

class Session {
 public:
  // Claims the slot for this process. kFenced: the slot belongs to another generation. kNotOurs:
  // another process has claimed it. Also fails as PageFile::Open.
  static Result<Session> Open(const SessionPlace& place);

  // Step `step` of the whole training is done. Steps only rise: a lower one counts as a report, but
  // shows no progress. `norm` is that of the gradients.
  void Step(int64_t step, std::optional<double> loss = {}, std::optional<double> norm = {});
  // One more step is done since this process started. Ignored after Step, whose number is the
  // script's own.
  void CountStep();
  // The optimizer's own step count was `step` when this attempt began, so counting continues from
  // there. Ignored after Step and after the first step.
  void BeganAt(int64_t step);
  // The whole training has `steps` steps. Less than 1: that is not known.
  void EndsAt(int64_t steps);
  // A checkpoint of step `step` is complete.
  void Saved(int64_t step);
  // The script has written a checkpoint of its own to a path.
  void FileSaved();
  // The ranks share a global batch: a step is the same work in a world of any size.
  void SharesBatch();
  // The script begins; torch's hook is installed; the script failed (returns the time); the store's
  // port is in use.
  void Entered();
  void HookInstalled();
  int64_t Failed();
  void PortTaken();
  void LinesDropped(uint64_t count);  // the disk had no room for them

  // The highest step so far (-1: none), and the number of reports.
  int64_t step() const;
  uint64_t step_count() const;

 private:
  Session(PageFile page, PageSlot* slot) : page_(std::move(page)), slot_(slot) {}
  // `made`: the steps since the last report.
  void Report(int64_t step, uint64_t made);
  void NoteLoss(std::optional<double> loss);
  void NoteBad(const BadLoss& bad);

  PageFile page_;
  PageSlot* slot_;  // points into page_
  LossWatch losses_;
};

}  // namespace paceline::client
