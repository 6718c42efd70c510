#pragma once

// The conversation of `paceline ckpt rescue` with the agents of a job without a master, by files in
// the directory of the checkpoints: docs/formats/rescue.md. Only one command of a job may write the
// call at a time; a second command is refused.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/ckpt/storage/rescue_files.h"
#include "paceline/cli/ckpt/find.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/job/job_place.h"

namespace paceline::cli {

Instant RescueNow();

class RescueTalk {
 public:
  // `where`: the directory, for errors. SIGINT and SIGTERM interrupt a Poll from now on; a second
  // one ends the process.
  RescueTalk(ckpt::Store* store, const JobPlace& place, std::string where);

  // Fails if another command of this job lives: the beat of its call goes up.
  Check Begin();
  // Writes the call with that stage and the next beat. Fails if another command has begun.
  Check Put(RescueCall::Stage stage);
  // Reads answers until `is_done`, a problem, a signal, or `limit`. An answer from a host whose
  // agent is connected to a master is a problem: nothing is to be rescued then.
  Check Poll(Duration limit, const std::function<bool()>& is_done);
  // The command has changed nothing, or is over.
  void GiveUp();

  RescueCall& call() { return call_; }
  const RescueCall& call() const { return call_; }
  const std::vector<RescueAnswer>& answers() const { return answers_; }
  // Whether that node has answered that its ranks have ended.
  bool HasEnded(const std::string& node) const;
  // Drops the answers of nodes whose ranks have not ended, until the next Poll.
  void LeaveOutTheUnended();
  // The hosts of these nodes, or of all nodes that have answered.
  std::string Hosts() const;
  std::string HostsOf(const std::set<std::string>& nodes) const;
  // The signal that came; 0: none.
  int interrupted_by() const;

 private:
  Problem OtherSpeaks(const RescueCall& other) const;

  ckpt::Store* const store_;
  const std::string job_id_;
  const std::string master_addr_;
  const std::string where_;
  RescueCall call_;
  std::string former_;     // the id of the call that was there before
  bool has_lost_ = false;  // another command has made its call
  std::vector<RescueAnswer> answers_;
};

// The refusal for a job whose master lives.
Problem MasterLives(const std::string& job_id, const std::string& where, const std::string& why,
                    const std::string& fix);

}  // namespace paceline::cli
