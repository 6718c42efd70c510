#include "paceline/cli/job/outcome.h"

#include <cstdint>
#include <variant>

#include "paceline/master/journal/journal.h"

namespace paceline::cli {
namespace {

// How many of the journal's last records are searched for the end of the job. Only records of
// storage and of nodes that leave may follow it.
constexpr uint32_t kLastRecords = 64;

}  // namespace

Outcome OutcomeOf(const JobPlace& job) {
  Outcome outcome{.end = job.end};
  const auto records = master::ReadEndOfJournal(job.run_dir + "/journal.db", kLastRecords);
  if (!records.ok()) return outcome;
  for (const core::Record& record : *records) {
    const auto* finished = std::get_if<core::JobFinished>(&record.fact);
    const bool is_resumed = std::holds_alternative<core::JobResumed>(record.fact);
    if (is_resumed) outcome.end.reset();
    if (finished != nullptr) outcome.end = JobEnd{finished->exit_code, finished->reason};
    const bool is_its_end = outcome.end.has_value() && finished == nullptr;
    if (!is_its_end) outcome.at = static_cast<double>(record.at.nanoseconds()) / 1e9;
  }
  return outcome;
}

}  // namespace paceline::cli
