#include "paceline/cli/run/lone_stop.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/base/status_macros.h"
#include "paceline/core/job.h"
#include "paceline/master/clock.h"
#include "paceline/master/journal/journal.h"

namespace paceline::cli {

std::vector<core::Record> RecordsOfLoneStop(const JobEnd& end, const core::JobState& state,
                                            Instant now) {
  if (state.phase == core::Phase::kFinished || state.phase == core::Phase::kEmpty) return {};
  std::vector<core::Record> records;
  const auto add = [&](core::Fact fact) {
    const RecordSeq last = records.empty() ? state.last_seq : records.back().seq;
    std::vector<RecordSeq> causes;
    if (!records.empty()) causes.push_back(last);
    records.push_back(
        {.seq = last.next(), .at = now, .causes = std::move(causes), .fact = std::move(fact)});
  };
  // The master may have recorded the request, but not the end.
  if (state.phase != core::Phase::kStopping) {
    add(core::StopDecided{.exit_code = end.exit_code, .reason = end.reason, .is_asked = true});
  }
  add(core::JobFinished{.exit_code = end.exit_code,
                        .reason = end.reason,
                        .step = std::max(int64_t{0}, state.step_max)});
  return records;
}

absl::Status RecordLoneStop(const std::string& run_dir, const JobEnd& end) {
  std::vector<core::Record> before;
  ASSIGN_OR_RETURN(auto journal, master::Journal::Open({.path = run_dir + "/journal.db"}, &before));
  if (before.empty()) return absl::OkStatus();
  core::Job job;
  for (const core::Record& record : before) job.Restore(record);
  const master::Clock clock(before.back().at);
  std::vector<core::Record> records = RecordsOfLoneStop(end, job.state(), clock.Now());
  if (records.empty()) return absl::OkStatus();
  std::string why = "it was not written";
  // The sink runs on the journal's thread, which has ended when `why` is read.
  journal->Start([&why](master::JournalEvent event) {
    if (std::holds_alternative<master::RecordsDurable>(event)) why.clear();
    if (const auto* failed = std::get_if<master::JournalFailed>(&event)) why = failed->why;
  });
  journal->Append(std::move(records));
  journal.reset();
  return why.empty() ? absl::OkStatus() : absl::UnavailableError(why);
}

}  // namespace paceline::cli
