#pragma once

// How a command reads a job: from the running master, or from the journal of the run directory if
// no master runs. Both give the same values, so an ended job is shown like a running one.

#include <functional>
#include <vector>

#include "paceline/cli/command.h"
#include "paceline/cli/job/find_job.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/core/record.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::cli {

// The error for a job whose master, on another host, does not answer.
Problem MasterIsAway(const JobPlace& place);

// The job that --job names, or the one of this directory (see FindJob). Says a note about it.
Result<JobPlace> JobOf(Invocation& invocation, JobUse use = JobUse::kShow);

// A client with the run directory's token and, with TLS, its certificates. PL-E030 when job.json
// has no address, PL-E102 when there is no readable token.
Result<wire::ControlClientOptions> ControlOptions(const JobPlace& place, Duration timeout);

// How long to go on asking about a job.
struct Patience {
  Duration each;  // limit of one request
  Duration in_all = Duration::Infinite();
  bool also_for_nobody =
      false;  // go on although no process runs the job, because it may be resumed
};
enum class Asked { kAnswered, kNobodyRunsIt, kTimeIsUp };

// Calls `ask` with the job's place until it returns true. The place is read from job.json each
// time, because a master may just be starting, or restart at another address. kNobodyRunsIt: the
// job has ended, or all its processes were killed.
Asked AskUntil(const JobPlace& place, const Patience& patience,
               const std::function<bool(const JobPlace& now, Duration limit)>& ask);

// Whether the status of an RPC means that no master runs now.
bool IsAway(const absl::Status& status);

// How long commands for people wait for the master.
inline constexpr Duration kStatusPatience = Duration::Seconds(2);

// From the master; from the journal if no master answers.
Result<wire::JobStatus> StatusOf(const JobPlace& place, Duration timeout);

// Asks the running master for another size of the job. A master that may just be starting is asked
// again for ten seconds. What it refuses is in the reply.
Result<wire::ScaleReply> AskToScale(const JobPlace& place, const wire::ScaleRequest& request);

// Asks the running master to record a drill, or with `dry_run` what it would cost. Asked once: a
// drill that was recorded must not be recorded again.
Result<wire::DrillReply> AskToDrill(const JobPlace& place, const wire::DrillRequest& request);

// From the journal of place.run_dir, whether or not a master runs. PL-E030 when there is none.
Result<std::vector<core::Record>> RecordsFromJournal(const JobPlace& place);
Result<wire::JobStatus> StatusFromJournal(const JobPlace& place);
Check EventsFromJournal(const JobPlace& place, uint64_t from_seq,
                        const std::function<bool(const wire::JobEvent&)>& take);
// Calls `take` for each event from `from_seq` on until it returns false. `records` are all of the
// job.
void EachEvent(const std::vector<core::Record>& records, uint64_t from_seq,
               const std::function<bool(const wire::JobEvent&)>& take);

// Every event from `from_seq` on. With `follow` new ones as they come, over master restarts, until
// the job has finished or `take` returns false.
Check EventsOf(const JobPlace& place, uint64_t from_seq, bool follow,
               const std::function<bool(const wire::JobEvent&)>& take);

}  // namespace paceline::cli
