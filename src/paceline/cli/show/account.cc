#include "paceline/cli/show/account.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

using wire::JobEvent;

template <size_t kCount>
bool IsAmong(const std::string& kind, const std::array<std::string_view, kCount>& kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool IsDecision(const JobEvent& event) {
  constexpr std::array<std::string_view, 3> kKinds = {"recovery_decided", "stop_decided",
                                                      "job_finished"};
  return IsAmong(event.kind, kKinds);
}

bool IsCause(const JobEvent& event) {
  constexpr std::array<std::string_view, 6> kKinds = {"hang_judged", "rank_failed",  "node_lost",
                                                      "node_left",   "node_noticed", "job_resumed"};
  return IsAmong(event.kind, kKinds);
}

std::optional<JobEvent> CauseOf(const Explanation& why) {
  if (why.first_fault.has_value()) return why.first_fault;
  const auto found = std::find_if(why.evidence.begin(), why.evidence.end(), IsCause);
  if (found != why.evidence.end()) return *found;
  return IsCause(why.event) ? std::optional(why.event) : std::nullopt;
}

std::optional<JobEvent> DecisionOf(const Explanation& why) {
  if (IsDecision(why.event)) return why.event;
  const auto found = std::find_if(why.outcome.begin(), why.outcome.end(), IsDecision);
  return found != why.outcome.end() ? std::optional(*found) : std::nullopt;
}

// Returns "; 3 steps are trained again", or "" if it is not known at which step the new world
// began.
std::string LostSteps(const Explanation& why, const std::vector<JobEvent>& events) {
  const uint64_t generation = why.outcome.back().generation;
  for (const JobEvent& event : events) {
    if (event.kind != "restore_decided" || event.generation != generation) continue;
    const int64_t lost = why.event.step.value_or(-1) - event.step.value_or(-1);
    if (!event.step.has_value() || lost <= 0) return "";
    return Concat("; ", Counted(static_cast<uint64_t>(lost), "step"), lost == 1 ? " is" : " are",
                  " trained again");
  }
  return "";
}

std::string CostOf(const Explanation& why, const std::vector<JobEvent>& events) {
  if (!why.cost.has_value() || why.outcome.empty()) return "";
  return Concat("training again after ", ToString(*why.cost), LostSteps(why, events));
}

std::string NowByEvents(const std::vector<JobEvent>& events) {
  bool has_progress = false;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    const std::string& kind = event->kind;
    if (kind == "job_finished") {
      return Concat("the job has ended with exit code ", DetailOf(*event, "exit_code"));
    }
    if (kind == "stop_decided") return "the job is ending";
    if (kind == "wait_began") return Visible(event->sentence);
    has_progress = has_progress || kind == "progress_made" || kind == "hang_ended";
    const bool is_told = kind == "hang_judged" && DetailOf(*event, "acts") == "false";
    if (is_told && !has_progress) return "a hang is suspected";
    if (kind == "world_running") return "training goes on";
    if (kind == "world_formed") return "the ranks of the next world start";
    if (kind == "rank_failed" && DetailOf(*event, "charged") == "false") continue;
    if (kind == "world_ended" || kind == "rank_failed") return "the next world is not formed yet";
  }
  return "";
}

// An older release left no event when a hang ended by itself, so the master's word counts more than
// the events.
std::string NowOf(const Explanation& why, const std::vector<JobEvent>& events,
                  const std::optional<wire::JobStatus>& status) {
  const bool is_live = status.has_value() && status->phase != "finished" && status->master_pid > 0;
  if (!is_live) return NowByEvents(events);
  if (status->phase != "running") {
    return status->pending.empty() ? NowByEvents(events) : Visible(status->pending);
  }
  // The master tells a step's time and no speed while the world stands still.
  constexpr Duration kStill = Duration::Seconds(3);
  const bool is_still =
      status->steps_per_second <= 0 && status->since_step.value_or(Duration()) > kStill;
  if (!status->hang.has_value()) {
    return is_still && !status->pending.empty() ? Visible(status->pending) : "training goes on";
  }
  const bool is_told = why.hang.has_value() && why.hang->seq == status->hang->seq;
  if (!is_told || !status->since_step.has_value()) return Visible(status->pending);
  return Concat("no step for ", ToString(*status->since_step));
}

}  // namespace

Account AccountOf(const Explanation& why, const std::vector<JobEvent>& events,
                  const std::optional<wire::JobStatus>& status) {
  return {.cause = CauseOf(why),
          .decision = DecisionOf(why),
          .cost = CostOf(why, events),
          .now = NowOf(why, events, status)};
}

std::string CauseText(const JobEvent& cause) {
  return Concat(Visible(cause.sentence), " (", TimeOfDay(cause.time_ns), ")");
}

}  // namespace paceline::cli
