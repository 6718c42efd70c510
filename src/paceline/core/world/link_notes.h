#pragma once

// What the job remembers and says of links between hosts that may be bad. pair_tests.h finds them.

#include <string>

#include "paceline/core/job_state.h"
#include "paceline/core/record.h"

namespace paceline::core {

// Parts of Apply. Another host may come under the name of a node, so its links are forgotten then.
void NoteLinks(const PairsJudged& fact, JobState* state);
void ForgetLinks(const std::string& node, JobState* state);

// The sentence of the record.
std::string LinksText(const PairsJudged& fact);

// "the link between n1 and n2 may be bad: …"
std::string LinkText(const PairsJudged::Link& link);

}  // namespace paceline::core
