#include "paceline/cli/show/explain.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/show/failure_class.h"
#include "paceline/core/budget.h"
#include "paceline/core/checkpoint/storage_wait.h"

namespace paceline::cli {
namespace {

using wire::JobEvent;

constexpr size_t kEvidenceMax = 24;
constexpr size_t kTriedMax = 6;

bool IsOneOf(const std::string& kind, std::initializer_list<std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

constexpr char kHasFinished[] = "nothing to do: the job has finished";

// A world that formed or trained ends an incident, so causes before it belong to another one.
bool EndsAnIncident(const JobEvent& event) {
  return IsOneOf(event.kind, {"job_created", "job_resumed", "world_formed", "world_running",
                              "progress_made", "master_took_over"});
}

// What killed processes beside the ranks leave in the journal. Training goes on without a decision.
bool IsReturn(const JobEvent& event) {
  return event.kind == "agent_returned" || (event.kind == "master_took_over" && event.seq > 2);
}

// Slow ranks and bad losses have no effect on the job.
bool IsOnlyTold(const JobEvent& event) {
  return IsOneOf(event.kind, {"rank_slow", "loss_went_bad"});
}

// Such a node is taken out of the job.
bool IsFailedCheck(const JobEvent& event) {
  return event.kind == "node_checked" && DetailOf(event, "ok") == "false";
}

bool FollowsFromADecision(const JobEvent& event) {
  return IsOneOf(event.kind, {"recovery_decided", "node_evicted", "world_ended", "world_formed",
                              "world_running", "parallel_plan_chosen", "wait_began", "stop_decided",
                              "job_finished", "job_resumed"});
}

const JobEvent* Find(const std::vector<JobEvent>& events, uint64_t seq) {
  const auto found = std::lower_bound(events.begin(), events.end(), seq,
                                      [](const JobEvent& e, uint64_t s) { return e.seq < s; });
  return found == events.end() || found->seq != seq ? nullptr : &*found;
}

// The arrival of a node, which may be hours old, is no part of why that node left.
bool IsHowItCame(const JobEvent* arrival, const JobEvent& departure) {
  return arrival != nullptr && arrival->kind == "node_joined" &&
         IsOneOf(departure.kind, {"node_noticed", "node_left", "node_lost", "node_evicted"});
}

std::vector<JobEvent> EvidenceOf(const std::vector<JobEvent>& events, const JobEvent& event) {
  std::set<uint64_t> found;
  std::vector<uint64_t> open = event.causes;
  while (!open.empty() && found.size() < kEvidenceMax) {
    const uint64_t seq = open.back();
    open.pop_back();
    const JobEvent* cause = Find(events, seq);
    // Causes are always older than their effects, so this recursion ends.
    if (cause == nullptr || cause->seq >= event.seq || !found.insert(seq).second) continue;
    if (EndsAnIncident(*cause)) {
      // The world may be all that is known of a failure, but it is no reason for a decision.
      const bool is_decision = event.kind == "recovery_decided";
      if (is_decision || found.size() > 1 || event.causes.size() > 1) found.erase(seq);
      continue;
    }
    for (const uint64_t older : cause->causes) {
      if (!IsHowItCame(Find(events, older), *cause)) open.push_back(older);
    }
  }
  std::vector<JobEvent> evidence;
  for (const uint64_t seq : found) evidence.push_back(*Find(events, seq));
  return evidence;
}

// The events that followed the decision, up to the world that trained again, or to the moment when
// somebody resumed the job after its end. The record of that
// world's parallel plan may come after its first step; it is listed before it.
std::vector<JobEvent> OutcomeOf(const std::vector<JobEvent>& events, const JobEvent& event) {
  std::vector<JobEvent> outcome;
  std::set<uint64_t> reached = {event.seq};
  bool stops = event.kind == "stop_decided";
  bool has_ended = event.kind == "job_finished";
  bool trains = false;
  for (const JobEvent& later : events) {
    if (later.seq <= event.seq || !FollowsFromADecision(later)) continue;
    const bool is_its_end = stops && later.kind == "job_finished";     // which names no cause
    const bool is_resumed = has_ended && later.kind == "job_resumed";  // which names none, too
    const bool follows = is_its_end || is_resumed ||
                         std::any_of(later.causes.begin(), later.causes.end(),
                                     [&](uint64_t cause) { return reached.contains(cause); });
    if (!follows) continue;
    const bool is_plan = later.kind == "parallel_plan_chosen";
    const bool has_plan =
        outcome.size() > 1 && outcome[outcome.size() - 2].kind == "parallel_plan_chosen";
    if (trains && (!is_plan || has_plan)) break;
    stops = stops || later.kind == "stop_decided";
    reached.insert(later.seq);
    outcome.insert(trains ? outcome.end() - 1 : outcome.end(), later);
    has_ended = has_ended || later.kind == "job_finished";
    if (trains || is_resumed) break;
    trains = later.kind == "world_running";
  }
  return outcome;
}

// A job that grows, or goes to a size that a user chose, without a failure.
bool IsPlannedChange(const std::vector<JobEvent>& events, const JobEvent& decision) {
  const std::string rung = DetailOf(decision, "rung");
  const auto is_choice = [&](uint64_t cause) {
    const JobEvent* event = Find(events, cause);
    return event != nullptr && event->kind == "size_chosen";
  };
  return rung == "none" || (rung == "resize" &&
                            std::any_of(decision.causes.begin(), decision.causes.end(), is_choice));
}

// What the job decided after its last progress and before `event`, oldest first. Decisions that are
// in `evidence` are left out, because they are shown there.
std::vector<JobEvent> TriedBefore(const std::vector<JobEvent>& events, const JobEvent& event,
                                  const std::vector<JobEvent>& evidence) {
  std::vector<JobEvent> tried;
  if (!IsOneOf(event.kind, {"recovery_decided", "stop_decided", "job_finished"})) return tried;
  for (auto older = events.rbegin(); older != events.rend() && tried.size() < kTriedMax; ++older) {
    if (older->seq >= event.seq || Find(evidence, older->seq) != nullptr) continue;
    if (IsOneOf(older->kind, {"job_created", "job_resumed", "progress_made"})) break;
    const std::string rung = DetailOf(*older, "rung");
    const bool is_try =
        older->kind == "node_evicted" || (older->kind == "recovery_decided" && rung != "stop" &&
                                          rung != "wait" && !IsPlannedChange(events, *older));
    if (is_try) tried.push_back(*older);
  }
  std::reverse(tried.begin(), tried.end());
  return tried;
}

void AddFaults(const std::vector<JobEvent>& events, Explanation* explanation) {
  uint64_t first = 0;
  for (const JobEvent& cause : explanation->evidence) {
    if (cause.kind != "rank_failed" || DetailOf(cause, "charged") == "false") continue;
    explanation->first_fault = cause;
    first = cause.seq;
    break;
  }
  if (explanation->event.kind == "rank_failed") explanation->first_fault = explanation->event;
  if (first == 0) return;
  bool is_over = false;
  for (const JobEvent& later : events) {
    if (later.seq <= first) continue;
    is_over = is_over || later.kind == "world_formed";
    if (later.kind != "rank_failed") continue;
    // A survivor's broken connection may be reported before what broke it. The next world may be
    // formed by then.
    const bool explains = DetailOf(later, "explains") == "true" && later.causes.size() == 1 &&
                          later.causes.front() == first;
    if (explains) explanation->first_fault = later;
    if (explains || !is_over) ++explanation->follow_ons;
  }
}

// The user's resume that led to the decision, if no world was formed between the two. The decision
// itself names no cause then.
std::optional<JobEvent> ResumeBefore(const std::vector<JobEvent>& events, const JobEvent& event) {
  if (event.kind != "recovery_decided") return std::nullopt;
  std::optional<JobEvent> resumed;
  for (const JobEvent& older : events) {
    if (older.seq >= event.seq) break;
    if (older.kind == "job_resumed") resumed = older;
    if (IsOneOf(older.kind, {"world_formed", "rank_failed", "recovery_decided"})) resumed.reset();
  }
  return resumed;
}

// The verdict on a hang that this incident began with or ended.
std::optional<JobEvent> HangOf(const std::vector<JobEvent>& events, const Explanation& why) {
  if (why.event.kind == "hang_judged") return why.event;
  std::vector<JobEvent> known = why.evidence;
  // The end of a job names no cause.
  for (const JobEvent& event : events) {
    const bool is_its_stop = why.event.kind == "job_finished" && event.kind == "stop_decided";
    if (is_its_stop && event.seq < why.event.seq) known = EvidenceOf(events, event);
  }
  std::optional<JobEvent> hang;
  for (const JobEvent& cause : known) {
    if (cause.kind == "hang_judged") hang = cause;
  }
  return hang;
}

// "Then rank 1 on a failed: SIGTERM.", "Then the hang ended by itself after 28 s." or "Then
// paceline ends the job with exit code 143: …"; "" if the verdict itself ended the hang, or nothing
// has yet.
std::string EndOfHang(const std::vector<JobEvent>& events, const Explanation& why) {
  if (!why.hang.has_value() || DetailOf(*why.hang, "acts") != "false") return "";
  for (const JobEvent& event : events) {
    const bool is_its_end = event.kind == "hang_ended" && event.seq > why.hang->seq &&
                            event.generation == why.hang->generation;
    if (is_its_end) return Concat("Then ", event.sentence, ".");
  }
  if (why.first_fault.has_value()) return Concat("Then ", why.first_fault->sentence, ".");
  std::vector<JobEvent> ends = why.outcome;
  ends.insert(ends.begin(), why.event);
  for (const JobEvent& event : ends) {
    const bool is_end = event.kind == "stop_decided" || event.kind == "job_finished";
    if (is_end) return Concat("Then ", event.sentence, ".");
  }
  return "";
}

// How long ago something had happened when the event was recorded.
int64_t AgeOf(const JobEvent& event, const std::string& detail) {
  const uint32_t age = ParseWhole<uint32_t>(DetailOf(event, detail)).value_or(0);
  return Duration::Milliseconds(age).nanoseconds();
}

// When training stopped: at the last sign of life before a hang, at the first failure or loss of a
// node, or when the world ended for another reason, such as a notice of minutes before. Nothing if
// the events do not tell.
std::optional<int64_t> StandsStillSince(const std::vector<JobEvent>& events,
                                        const Explanation& explanation) {
  for (const JobEvent& cause : explanation.evidence) {
    if (cause.kind == "hang_judged") return cause.time_ns - AgeOf(cause, "quiet_ms");
    if (cause.kind == "rank_failed") return cause.time_ns - AgeOf(cause, "died_ms");
    if (cause.kind == "node_lost") return cause.time_ns;
  }
  const bool is_decision = explanation.event.kind == "recovery_decided";
  if (!is_decision || explanation.evidence.empty()) return std::nullopt;
  // The end of the world that trained last. It may be recorded before the decision.
  std::optional<int64_t> since;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->seq >= explanation.outcome.back().seq) continue;
    if (event->kind == "world_running") break;
    if (event->kind == "world_ended") since = event->time_ns;
  }
  return since;
}

// "train.py:31" of "ValueError: bad batch (train.py:31)"; "" without a place.
std::string_view PlaceIn(std::string_view headline) {
  const size_t open = headline.rfind('(');
  if (open == std::string_view::npos || !headline.ends_with(')')) return "";
  const std::string_view place = headline.substr(open + 1, headline.size() - open - 2);
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return "";
  const bool has_line = ParseWhole<uint32_t>(place.substr(colon + 1)).has_value();
  return has_line ? place : "";
}

// What to do about `fault`, the failure for which the job ended; `end` is the record of the end.
std::string MendingOf(const JobEvent& fault, const JobEvent& end) {
  const std::string headline = DetailOf(fault, "headline");
  if (!DetailOf(fault, "memory_limit_bytes").empty()) {
    return "give its ranks less to hold (a new `paceline run` may have more [memory] node and "
           "most; "
           "--resume keeps the old limits)";
  }
  if (DetailOf(fault, "cgroup_oom") == "true") return "give its ranks more memory or less to hold";
  if (DetailOf(fault, "how") == "signaled" && DetailOf(fault, "code") == "9") {
    return "find what sent SIGKILL (`dmesg -T` names the kernel's own kills)";
  }
  if (core::NamesEarlyEnd(headline)) {
    return "let all ranks end after the same step";
  }
  const std::string_view place = PlaceIn(headline);
  const std::optional<FailureClass> known = ClassOf(fault);
  const bool is_advised = known.has_value() && known->role == "cause" && !known->is_general;
  if (end.sentence.find(core::kEachTimeOnText) != std::string::npos && !fault.node.empty()) {
    const std::string where = place.empty() ? "" : Concat(" at ", Visible(std::string(place)));
    return Concat("find what fails on ", Visible(fault.node), where, " and on no other node");
  }
  if (is_advised && !known->advice.empty()) return known->advice;
  const std::string fix =
      place.empty() ? "fix what failed" : Concat("fix ", Visible(std::string(place)));
  return headline.starts_with("ModuleNotFoundError") ? "install the module, or " + fix : fix;
}

// True if a rank made a step at any time, as far as the events tell.
bool HasSteps(const std::vector<JobEvent>& events) {
  return std::any_of(events.begin(), events.end(), [](const JobEvent& event) {
    const std::string count = DetailOf(event, "step_count");
    return event.step.value_or(-1) >= 0 || (!count.empty() && count != "0");
  });
}

// What to do about `fault`, before the first step of the job. Then --resume repeats a command that
// has never trained. Exit code 2 without an exception is what argparse and other parsers end a
// script with, if they do not take its command line.
std::string NextAfterNoStep(const JobEvent& fault, const JobEvent& end, const std::string& resume,
                            bool has_run_dir) {
  const bool is_refused = DetailOf(fault, "how") == "exited" && DetailOf(fault, "code") == "2" &&
                          DetailOf(fault, "headline").starts_with(core::kExitedText);
  if (!is_refused) {
    return Concat(MendingOf(fault, end), ", then ", resume,
                  has_run_dir ? "; that repeats the same command" : "");
  }
  return Concat("mend the command line of your script, and ",
                has_run_dir ? "type `paceline run` anew: --resume repeats the same command"
                            : "submit the job anew");
}

// What to do about a node that was taken out of the job for this; "" if none was.
std::string MendingOfEvicted(const Explanation& explanation) {
  for (const JobEvent& cause : explanation.evidence) {
    if (cause.kind != "node_evicted") continue;
    const std::string node = Visible(cause.node);
    const std::string host = Visible(DetailOf(cause, "excluded_host"));
    if (!host.empty()) {
      return Concat("fix what failed on the host ", host, "; the platform starts ", node,
                    " on another host, and the job goes on");
    }
    return Concat("fix what failed on ", node, ", then start it there again as before; ",
                  "the job goes on without it");
  }
  return "";
}

std::string NextOf(const std::vector<JobEvent>& events, const Explanation& explanation,
                   const std::string& run_dir) {
  const JobEvent& event = explanation.event;
  const std::string rung = DetailOf(event, "rung");
  const JobEvent* last = explanation.outcome.empty() ? nullptr : &explanation.outcome.back();
  if (last != nullptr && last->kind == "job_resumed") return "nothing to do: the job was resumed";
  if (event.kind == "job_finished" || (last != nullptr && last->kind == "job_finished")) {
    const JobEvent& end = last == nullptr ? event : *last;
    if (DetailOf(end, "exit_code") == "0") return kHasFinished;
    // A job of a cluster has no run directory any more.
    const std::string resume = run_dir.empty()
                                   ? "submit it again: it goes on from its newest checkpoint"
                                   : ResumeCommand(run_dir);
    const bool is_lost = DetailOf(end, "reason").find(core::kPartIsLost) != std::string::npos;
    if (DetailOf(end, "exit_code") == Concat(int{kExitNotStored})) {
      return Concat(is_lost ? "on each host: " : "repair the storage, then ", resume);
    }
    const auto& fault = explanation.first_fault;
    if (!fault.has_value()) return resume;
    if (!HasSteps(events)) return NextAfterNoStep(*fault, end, resume, !run_dir.empty());
    return Concat(MendingOf(*fault, end), ", then ", resume);
  }
  if (event.kind == "hang_judged" && DetailOf(event, "acts") == "false") {
    const std::string later = Visible(DetailOf(event, "later"));
    return "paceline why --evidence; " + (later.empty() ? "nothing was restarted for it" : later);
  }
  if (IsFailedCheck(event)) {
    return Concat("repair ", Visible(event.node), ", then start it there again as before");
  }
  if (IsReturn(event)) return "nothing to do: training goes on";
  if (event.kind == "drill_struck") return "paceline why again, when the drill was noticed";
  if (IsOnlyTold(event)) return "paceline status; nothing is done about it";
  if (event.kind == "checkpoint_not_stored") {
    const std::string directory = Visible(DetailOf(event, "directory"));
    const std::string mending = core::MendingOf(directory, DetailOf(event, "reason"));
    return Concat(directory, ": ", mending, "; paceline tries again by itself");
  }
  const std::string evicted = MendingOfEvicted(explanation);
  if (!evicted.empty() && last != nullptr && last->kind.starts_with("world_")) return evicted;
  if (last != nullptr && last->kind == "world_running") return "nothing to do: training goes on";
  if (rung == "wait" || (last != nullptr && last->kind == "wait_began")) {
    return "start a node on another host; paceline status says what is missing";
  }
  if (event.kind == "node_joined" && last == nullptr) {
    return "start the other nodes; paceline status says what is missing";
  }
  if (rung == "stop" || event.kind == "stop_decided") return "the job is ending: paceline wait";
  return "paceline status";
}

}  // namespace

std::optional<uint64_t> LastIncident(const std::vector<JobEvent>& events) {
  const JobEvent* end = nullptr;
  std::optional<uint64_t> good_end;  // the stop of a job that ended well is no incident
  std::optional<uint64_t> bad_loss;
  bool has_run = false;  // a rank that was named before the world ran has come since
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->kind == "stop_decided" && end != nullptr) {
      // A job that stopped well, and ended otherwise all the same: the end gives the reason.
      const bool is_why = DetailOf(*event, "exit_code") == DetailOf(*end, "exit_code");
      if (!is_why) return end->seq;
      if (DetailOf(*end, "exit_code") != "0") return event->seq;
      good_end = event->seq;
      continue;
    }
    if (event->kind == "recovery_decided" || event->kind == "stop_decided") return event->seq;
    if (IsFailedCheck(*event)) return event->seq;
    has_run = has_run || event->kind == "world_running";
    const bool is_told = event->kind == "hang_judged" && DetailOf(*event, "acts") == "false";
    if (is_told && !has_run) return event->seq;
    if (event->kind == "rank_slow" || IsReturn(*event)) return event->seq;
    // Nothing has followed from it yet.
    if (event->kind == "drill_struck") return event->seq;
    // A loss that rises is often the consequence of an incident, and never more urgent than one.
    if (event->kind == "loss_went_bad" && !bad_loss.has_value()) bad_loss = event->seq;
    if (event->kind == "job_finished") end = &*event;
  }
  return bad_loss.has_value() ? bad_loss : good_end;
}

std::optional<Explanation> Explain(const std::vector<JobEvent>& events, uint64_t seq,
                                   const std::string& run_dir) {
  const JobEvent* event = Find(events, seq);
  if (event == nullptr) return std::nullopt;
  Explanation explanation{.event = *event,
                          .evidence = EvidenceOf(events, *event),
                          .outcome = OutcomeOf(events, *event)};
  if (const auto resumed = ResumeBefore(events, *event); resumed.has_value()) {
    explanation.evidence.insert(explanation.evidence.begin(), *resumed);
  }
  for (const JobEvent& cause : explanation.evidence) {
    if (cause.kind == "drill_struck") explanation.drill = cause;
  }
  AddFaults(events, &explanation);
  if (explanation.first_fault.has_value()) {
    explanation.tried = TriedBefore(events, *event, explanation.evidence);
  }
  explanation.hang = HangOf(events, explanation);
  explanation.hang_end = EndOfHang(events, explanation);
  // The causes of a failure are the world in which it happened, from before the incident.
  const auto begin =
      std::find_if_not(explanation.evidence.begin(), explanation.evidence.end(), EndsAnIncident);
  const JobEvent& first = begin == explanation.evidence.end() ? *event : *begin;
  if (!explanation.outcome.empty() && explanation.outcome.back().kind == "world_running") {
    const int64_t since = StandsStillSince(events, explanation).value_or(first.time_ns);
    explanation.cost = Duration::Nanoseconds(explanation.outcome.back().time_ns - since);
  }
  const bool has_ended_well =
      events.back().kind == "job_finished" && DetailOf(events.back(), "exit_code") == "0";
  explanation.next = has_ended_well ? kHasFinished : NextOf(events, explanation, run_dir);
  return explanation;
}

}  // namespace paceline::cli
