#include "paceline/cli/drill/seen.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/settings/value.h"
#include "paceline/cli/show/explain.h"
#include "paceline/cli/show/failure_class.h"

namespace paceline::cli {
namespace {

using wire::JobEvent;

constexpr std::array<std::string_view, 7> kFindings = {
    "rank_failed",      "hang_judged", "node_lost",    "agent_returned",
    "master_took_over", "rank_slow",   "loss_went_bad"};

bool IsFinding(const JobEvent& event) {
  return std::find(kFindings.begin(), kFindings.end(), event.kind) != kFindings.end();
}

void Name(const JobEvent& event, std::string found, Seen* seen) {
  seen->found = std::move(found);
  seen->rank = event.rank;
  seen->node = event.node;
}

// The class of what a decision answers, as `paceline why` finds it.
void NameCause(const std::vector<JobEvent>& events, const JobEvent& decision, Seen* seen) {
  const auto why = Explain(events, decision.seq, "");
  if (!why.has_value()) return;
  if (why->hang.has_value()) return Name(*why->hang, DetailOf(*why->hang, "hang"), seen);
  if (why->first_fault.has_value()) {
    const auto known = ClassOf(*why->first_fault);
    const std::string how = DetailOf(*why->first_fault, "how");
    return Name(*why->first_fault, known.has_value() ? known->name : how, seen);
  }
  for (const JobEvent& event : why->evidence) {
    if (IsFinding(event)) return Name(event, event.kind, seen);
  }
}

// A world whose ranks have run for a while without a step counts as running, too.
bool TellsOfSteps(const JobEvent& event) {
  return event.kind == "progress_made" ||
         (event.kind == "world_running" && DetailOf(event, "has_steps") != "false");
}

std::string Who(const std::optional<uint32_t>& rank, const std::string& node) {
  if (rank.has_value()) return Concat("rank ", *rank);
  return node.empty() ? "nobody" : node;
}

}  // namespace

Seen SeenIn(const std::vector<JobEvent>& events, const Struck& struck) {
  Seen seen;
  const JobEvent* decision = nullptr;
  const auto since = [&](const JobEvent& event) {
    return Duration::Nanoseconds(event.time_ns - struck.time_ns);
  };
  for (const JobEvent& event : events) {
    if (event.time_ns < struck.time_ns) continue;
    if (IsFinding(event) && !seen.found_after.has_value()) {
      seen.found_after = since(event);
      // Until it is decided about.
      const std::string hang = DetailOf(event, "hang");
      Name(event, hang.empty() ? event.kind : hang, &seen);
    }
    if (event.kind == "recovery_decided" && decision == nullptr) decision = &event;
    if (TellsOfSteps(event) && decision != nullptr && !seen.trained_after.has_value()) {
      seen.trained_after = since(event);
    }
  }
  if (decision == nullptr) return seen;
  seen.rung = DetailOf(*decision, "rung");
  NameCause(events, *decision, &seen);
  return seen;
}

bool IsComplete(const DrillKind& kind, const Seen& seen) {
  return seen.found_after.has_value() && (kind.rung.empty() || seen.trained_after.has_value());
}

std::string Difference(const DrillKind& kind, const Struck& struck, const Seen& seen) {
  if (!seen.found_after.has_value()) {
    return Concat("nothing was found within ", FormatDuration(kind.deadline));
  }
  if (seen.found != kind.found) return Concat("found ", seen.found, ", not ", kind.found);
  if (seen.rung != kind.rung) {
    return Concat("decided ", seen.rung.empty() ? "nothing" : seen.rung, ", not ",
                  kind.rung.empty() ? "nothing" : kind.rung);
  }
  const bool is_right = struck.rank.has_value() ? seen.rank == struck.rank
                                                : struck.node.empty() || seen.node == struck.node;
  if (!is_right) {
    return Concat("blamed ", Who(seen.rank, seen.node), ", not ", Who(struck.rank, struck.node));
  }
  if (*seen.found_after > kind.deadline) {
    return Concat("found after more than ", FormatDuration(kind.deadline));
  }
  if (!IsComplete(kind, seen)) return "the ranks do not train again";
  return "";
}

}  // namespace paceline::cli
