#pragma once

// A command's way to a job: the running master, or the journal of the run directory when there is
// none. Both give the same values, so a post-mortem reads like a live job.

#include <functional>

#include "paceline/cli/command.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::cli {

// The job that --job names, or the obvious one.
Result<JobPlace> JobOf(const Invocation& invocation);

// A client with the run directory's token and, with TLS, its certificates. PL-E030 when job.json
// has no address, PL-E102 when there is no readable token.
Result<wire::ControlClientOptions> ControlOptions(const JobPlace& place, Duration timeout);

// How long to go on asking about a job.
struct Patience {
  Duration each;  // what one question may take
  Duration in_all = Duration::Infinite();
  bool also_for_nobody = false;  // go on when nobody runs the job: it may be resumed
};
enum class Asked { kAnswered, kNobodyRunsIt, kTimeIsUp };

// Calls `ask` until it returns true, with the job's place as job.json tells it by then: a master
// that is just starting, is started again or moves is asked where it is. Nobody runs the job: it
// has ended, or was left behind.
Asked AskUntil(const JobPlace& place, const Patience& patience,
               const std::function<bool(const JobPlace& now, Duration limit)>& ask);

// Whether that status of an RPC only says that no master is there now.
bool IsAway(const absl::Status& status);

// From the master; from the journal when nobody answers.
Result<wire::JobStatus> StatusOf(const JobPlace& place, Duration timeout);

// What the journal of place.run_dir says, whoever lives. PL-E030 when there is none.
Result<wire::JobStatus> StatusFromJournal(const JobPlace& place);
Check EventsFromJournal(const JobPlace& place, uint64_t from_seq,
                        const std::function<bool(const wire::JobEvent&)>& take);

// Every event from `from_seq` on. With `follow` new ones as they come, over master restarts, until
// the job has finished or `take` returns false.
Check EventsOf(const JobPlace& place, uint64_t from_seq, bool follow,
               const std::function<bool(const wire::JobEvent&)>& take);

}  // namespace paceline::cli
