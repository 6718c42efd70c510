#pragma once

// What a command says about a master that does not answer.

#include <string>

#include "paceline/cli/console/error.h"
#include "paceline/cli/job/job_place.h"

namespace paceline::cli {

// How long a command that needs the master waits for its first answer.
inline constexpr Duration kFirstAnswerPatience = Duration::Seconds(3);

// The error of a command that only the master can carry out: which process it is, where, why it
// does not answer, and what to do. PL-E030.
Problem MasterIsSilent(const JobPlace& place);

// "the master (process 12) does not answer, and the journal has no record since 14:02:11.0 (42 s)",
// for what is told from the journal instead.
std::string SilenceText(const JobPlace& place);

// True if the master's process on this host was stopped, as by SIGSTOP.
bool IsMasterStopped(const JobPlace& place);

// What brings back the master of a job of this host that does not answer, as in MasterIsSilent: its
// launcher, or without one the command that takes over. A `paceline run --resume` beside a launcher
// would be refused.
std::string MasterComesText(const JobPlace& place);

}  // namespace paceline::cli
