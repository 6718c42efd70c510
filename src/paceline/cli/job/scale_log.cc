#include "paceline/cli/job/scale_log.h"

#include "paceline/base/instant.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

uint32_t NumberIn(const wire::JobEvent& event, const char* detail) {
  return static_cast<uint32_t>(ParseInteger(DetailOf(event, detail)).value_or(0));
}

}  // namespace

std::vector<SizeDecision> SizeDecisions(const std::vector<wire::JobEvent>& events) {
  std::vector<SizeDecision> decisions;
  size_t nodes = 0;  // of the newest world
  // True from the decision on until its size is reached.
  const auto is_open = [&] {
    return !decisions.empty() && !decisions.back().reached_after.has_value();
  };
  const auto reach = [&](int64_t time_ns) {
    if (!is_open() || nodes != decisions.back().nodes) return;
    decisions.back().reached_after = Duration::Nanoseconds(time_ns - decisions.back().time_ns);
  };
  bool is_running = false;
  for (const wire::JobEvent& event : events) {
    if (event.kind == "world_formed") {
      nodes = event.members.size();
      is_running = false;
    } else if (event.kind == "world_running") {
      is_running = true;
      reach(event.time_ns);
    } else if (event.kind == "size_chosen") {
      if (is_open()) decisions.back().is_replaced = true;
      decisions.push_back({.seq = event.seq,
                           .time_ns = event.time_ns,
                           .nodes = NumberIn(event, "nodes"),
                           .is_measured = DetailOf(event, "by_measurement") == "true",
                           .reason = DetailOf(event, "reason")});
      if (is_running) reach(event.time_ns);
    }
  }
  return decisions;
}

std::string OutcomeOf(const SizeDecision& decision) {
  if (decision.reached_after.has_value()) {
    return *decision.reached_after == Duration()
               ? "the job had it"
               : "reached after " + ToString(*decision.reached_after);
  }
  return decision.is_replaced ? "replaced before it was reached" : "not reached";
}

}  // namespace paceline::cli
