#pragma once

// Explains an event: finds the events that led to it and those that it led to, by the causes that
// every record names. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/wire/messages.h"

namespace paceline::cli {

struct Explanation {
  wire::JobEvent event;                  // the event to explain
  std::vector<wire::JobEvent> evidence;  // events that led to it, oldest first
  std::vector<wire::JobEvent> outcome;   // events that it led to, until training went on
  std::vector<wire::JobEvent> tried;     // earlier decisions that brought no progress
  std::optional<wire::JobEvent> drill;   // a user caused it: the event that says so
  std::optional<wire::JobEvent> hang;    // the verdict, if the incident was a hang
  std::string hang_end;  // what ended that hang, if paceline only named it: a signal, a stop
  std::optional<wire::JobEvent> first_fault;  // the failed rank among the evidence, if any
  uint32_t follow_ons = 0;       // failures after the first, before the new world: not the cause
  std::optional<Duration> cost;  // from the first evidence until training went on
  std::string next;              // one sentence: what to do, or that nothing is to be done
};

// The event of the last incident: the last decision, the last reported hang, or the end of a job
// that failed. The stop of a job that ended well counts only if nothing else happened. Returns none
// if there was no incident.
std::optional<uint64_t> LastIncident(const std::vector<wire::JobEvent>& events);

// Nothing if there is no such event. `events` are in order of seq. `run_dir` is the job's, for the
// command that resumes it.
std::optional<Explanation> Explain(const std::vector<wire::JobEvent>& events, uint64_t seq,
                                   const std::string& run_dir);

}  // namespace paceline::cli
