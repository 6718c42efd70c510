#pragma once

// Which job a command is about.
//
// A job is of the directory in which it was started, and of its run directory. A command without
// --job takes a job of the directory in which it is typed. What a job of another directory may be
// taken for depends on what the command does with it:
//
//   kShow    the newest job of this directory, running or ended; without one, the only job that
//            runs, else the newest one of this host
//   kHere    the newest job of this directory and no other one: what such a command returns or
//            writes is used without a look at the job's name
//   kWatch   as kShow, but a job that runs goes before newer ones that have ended
//   kChange  only a job of this directory, the running one first: a command that stops the job of
//            another directory by mistake loses somebody's work
//
// The newest job is the one that was started or resumed last.
//
// --job takes a run directory, an id, a name, or the begin of an id. For kChange an id or a name
// has to be whole, because the begin of one may be that of another job by mistake.

#include <string>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/job/job_place.h"

namespace paceline::cli {

enum class JobUse { kShow, kHere, kWatch, kChange };

struct FoundJob {
  JobPlace place;
  std::string note = {};  // for people: why it is this one; "" if no other was meant
};

// The job that `asked`, the value of --job, names; if it is empty, the job of `directory`. PL-E022
// if there is none, PL-E023 if several may be meant, PL-E024 if none has that name.
Result<FoundJob> FindJob(const Environment& environment, const std::string& asked, JobUse use,
                         const std::string& directory);

// True if the job was started in that directory, or if this is in its run directory.
bool IsOfDirectory(const JobPlace& place, const std::string& directory);

// This process's, "" if it was removed.
std::string CurrentDirectory();

}  // namespace paceline::cli
