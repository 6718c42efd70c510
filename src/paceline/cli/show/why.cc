// `paceline why`: the last incident of the job, any event of it, or what an error code means.

#include <cctype>
#include <optional>

#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/error_codes.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/rank_flag.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/host_trouble.h"
#include "paceline/cli/job/master_end.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/silent_master.h"
#include "paceline/cli/settings/value.h"
#include "paceline/cli/show/account.h"
#include "paceline/cli/show/explain.h"
#include "paceline/cli/show/failure_class.h"
#include "paceline/cli/show/why_json.h"

namespace paceline::cli {
namespace {

constexpr Flag kWhyFlags[] = {
    {.dest = "evidence",
     .spellings = {"--evidence"},
     .kind = FlagKind::kSwitch,
     .help = "for a hang: what each rank did, and the events around it"},
};

int ExplainCode(Invocation& invocation, const ErrorCode& row) {
  Output& out = invocation.out;
  if (out.is_json()) {
    nlohmann::ordered_json json;
    json["schema"] = "paceline.error_code/1";
    json["code"] = row.code;
    json["title"] = row.title;
    json["text"] = row.text;
    json["exit_code"] = row.exit_code;
    out.DataLine(PrintJson(json));
    return kExitDone;
  }
  const size_t width = out.width() == 0 ? 80 : out.width();
  out.DataLine(out.Painted(Paint::kBold, std::string(row.code) + ": " + std::string(row.title)));
  out.Data("\n" + Wrap(row.text, 2, width));
  out.Data("\n  exit code " + std::to_string(row.exit_code) + "\n");
  return kExitDone;
}

// The verdict, and what followed: "… Restart process: training again after 0.6 s."
std::string HangText(const Explanation& why, const Account& account) {
  std::string text = why.hang->sentence;
  if (!why.hang_end.empty()) text += " " + why.hang_end;
  const std::string rung = DetailOf(why.event, "rung");
  if (!rung.empty()) {
    text += " " + std::string(1, static_cast<char>(std::toupper(rung.front()))) + rung.substr(1);
    text += account.cost.empty() ? "." : ": " + account.cost + ".";
  }
  return text;
}

// What a user did after the job's end.
void PrintResumed(Output& out, const Explanation& why) {
  if (why.outcome.empty() || why.outcome.back().kind != "job_resumed") return;
  out.DataLine("then: " + CauseText(why.outcome.back()));
}

// A fault that a user caused is no reason to look for another cause.
void PrintDrill(Output& out, const Explanation& why) {
  if (why.drill.has_value()) out.DataLine("drill: " + CauseText(*why.drill));
}

void PrintHang(Output& out, const Explanation& why, const Account& account, bool has_evidence) {
  const size_t width = out.width() == 0 ? 100 : out.width();
  out.Data(Wrap(Visible(HangText(why, account)), 0, width));
  PrintDrill(out, why);
  PrintResumed(out, why);
  if (!account.now.empty()) out.DataLine("now: " + account.now);
  if (!has_evidence) return;
  const std::string evidence = DetailOf(*why.hang, "evidence");
  for (const std::string_view line : SplitLines(evidence)) {
    out.Data(Wrap(Visible(line), 2, width));
  }
  for (const wire::JobEvent& event : why.evidence) {
    out.DataLine(ClipTo(EventLine(event), out.width()));
  }
  if (why.event.seq != why.hang->seq) out.DataLine(ClipTo(EventLine(why.event), out.width()));
  for (const wire::JobEvent& event : why.outcome) {
    out.DataLine(ClipTo(EventLine(event), out.width()));
  }
}

// Prints the cause of the incident first, then the decision, its cost, and the state of the job
// now.
void PrintAccount(Output& out, const Explanation& why, const Account& account, ReasonTold* told) {
  const wire::JobEvent& decision = account.decision.has_value() ? *account.decision : why.event;
  const bool is_own = account.cause.has_value() && account.cause->seq == decision.seq;
  const std::string done = is_own ? "" : Visible(told->Shorten(decision));
  out.DataLine(
      out.Painted(Paint::kBold, account.cause.has_value() ? CauseText(*account.cause) : done));
  PrintDrill(out, why);
  const std::string failure_class = ClassText(why.first_fault);
  // What a drill has done needs no advice.
  if (!failure_class.empty() && !why.drill.has_value()) out.DataLine("class: " + failure_class);
  if (account.cause.has_value() && !done.empty()) out.DataLine("then: " + done);
  PrintResumed(out, why);
  if (!account.cost.empty()) out.DataLine("cost: " + account.cost);
  if (!account.now.empty()) out.DataLine("now: " + account.now);
}

void PrintWhy(Output& out, const Explanation& why, const Account& account,
              const std::string& traceback) {
  ReasonTold told;
  PrintAccount(out, why, account, &told);
  const auto print = [&](const wire::JobEvent& event) {
    out.DataLine(ClipTo(EventLine(event, told.Shorten(event)), out.width()));
  };
  if (!why.tried.empty()) out.DataLine("tried before, since the last new step:");
  for (const wire::JobEvent& event : why.tried) print(event);
  if (!why.tried.empty()) out.DataLine("this time:");
  for (const wire::JobEvent& event : why.evidence) print(event);
  print(why.event);
  for (const wire::JobEvent& event : why.outcome) print(event);
  if (why.follow_ons > 0) {
    out.DataLine("not the cause: " + std::to_string(why.follow_ons) +
                 (why.follow_ons == 1 ? " failure that followed" : " failures that followed"));
  }
  if (!traceback.empty()) {
    out.DataLine("");
    for (const std::string_view line : SplitLines(traceback)) {
      out.DataLine("  " + Visible(line));
    }
  }
}

void PrintNext(Output& out, const JobPlace& place, const Explanation& why) {
  out.Say("next: " + why.next);
  if (why.first_fault.has_value() && why.first_fault->rank.has_value()) {
    std::string command =
        Concat("paceline logs ", NamedByFlag(place), " ", RankFlag(Rank(*why.first_fault->rank)));
    // A pod's log does not tell the worlds apart.
    if (place.on.empty()) {
      Append(&command, " --generation ", WorldNumber(why.first_fault->generation));
    }
    out.Say("      " + command);
  }
}

// What troubles the job at present beside what it does, which need not have become an event yet.
void PrintTroubles(Output& out, const JobPlace& place,
                   const std::optional<wire::JobStatus>& status) {
  if (!status.has_value()) return;
  const auto print = [&out](const std::string& text) {
    out.DataLine(ClipTo("now: " + Visible(text), out.width()));
  };
  const bool is_over = status->phase == "finished";
  for (const std::string& trouble : HostTroubles(place, is_over)) out.DataLine("now: " + trouble);
  if (is_over || status->master_pid == 0) return;
  if (status->journal != "ok" && !status->journal.empty()) print("journal: " + status->journal);
  const std::string& problem = status->checkpoints.problem;
  if (!problem.empty()) print("checkpoints: " + problem);
}

// A job that trained on after its last incident did not end because of it.
bool HasEndedWellAfter(const Explanation& why, const std::vector<wire::JobEvent>& events) {
  const wire::JobEvent& end = events.back();
  if (end.kind != "job_finished" || DetailOf(end, "exit_code") != "0") return false;
  const bool is_of_end = why.event.seq == end.seq || why.event.kind == "stop_decided";
  return !is_of_end;
}

std::optional<wire::JobStatus> StatusNow(const JobPlace& place) {
  auto status = StatusOf(place, kStatusPatience);
  if (!status.ok()) return std::nullopt;
  return *std::move(status);
}

Problem NoSuchEvent(uint64_t seq, const std::vector<wire::JobEvent>& events) {
  return Problem{.code = "PL-E010",
                 .what = "there is no event " + std::to_string(seq),
                 .where = "the command line",
                 .why = "the job's events are 1 to " + std::to_string(events.back().seq),
                 .fix = "paceline events"};
}

int ExplainJob(Invocation& invocation, std::optional<uint64_t> asked) {
  Output& out = invocation.out;
  const auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  std::vector<wire::JobEvent> events;
  const Check problem = EventsOf(*place, 1, /*follow=*/false, [&](const wire::JobEvent& event) {
    events.push_back(event);
    return true;
  });
  if (problem.has_value()) return out.Fail(*problem);
  const bool is_last = !asked.has_value();
  if (is_last) {
    asked = LastIncident(events);
    if (!asked.has_value() && !events.empty()) asked = events.back().seq;
  }
  if (events.empty()) {
    return out.Fail({.code = "PL-E030",
                     .what = "nothing has happened yet in " + place->id,
                     .where = place->run_dir,
                     .why = "its first event is written when its master starts",
                     .fix = "paceline status " + NamedByFlag(*place)});
  }
  const auto why = Explain(events, asked.value_or(0), place->run_dir);
  if (!why.has_value()) return out.Fail(NoSuchEvent(asked.value_or(0), events));
  const std::string traceback =
      why->first_fault.has_value() ? TracebackOf(place->run_dir, *why->first_fault) : "";
  const std::optional<wire::JobStatus> status = StatusNow(*place);
  Account account = AccountOf(*why, events, status);
  const bool is_alone =
      status.has_value() && status->phase != "finished" && status->master_pid == 0;
  if (is_alone) account.now = Visible(SilenceText(*place) + "; " + MasterComesText(*place));
  const bool is_past = is_last && !out.is_json() && HasEndedWellAfter(*why, events);
  if (is_past) out.DataLine("the job has ended well; its last incident, some time before that:");
  if (out.is_json()) {
    out.DataLine(PrintJson(WhyJson(place->id, *why, account, traceback)));
    return kExitDone;
  }
  if (why->hang.has_value()) {
    PrintHang(out, *why, account, invocation.line.Find("evidence") != nullptr);
  } else {
    PrintWhy(out, *why, account, traceback);
  }
  if (why->event.kind == "master_took_over") {
    const std::string before = MasterEndText(place->run_dir, why->event.time_ns);
    if (!before.empty()) out.DataLine("cause: " + before);
  }
  if (is_last) PrintTroubles(out, *place, status);
  PrintNext(out, *place, *why);
  return kExitDone;
}

}  // namespace

FlagTable WhyFlags() { return kWhyFlags; }

int RunWhy(Invocation& invocation) {
  if (invocation.line.positionals.empty()) return ExplainJob(invocation, std::nullopt);
  const std::string& asked = invocation.line.positionals.front();
  const auto seq = ParseInteger(asked);
  if (seq.has_value() && *seq >= 0) return ExplainJob(invocation, static_cast<uint64_t>(*seq));
  if (const ErrorCode* row = FindErrorCode(asked)) return ExplainCode(invocation, *row);
  return invocation.out.Fail({.code = "PL-E010",
                              .what = "there is no event and no error code " + asked,
                              .where = "paceline why " + ShellWord(asked),
                              .why = "events are numbers, codes look like PL-E012",
                              .fix = "`paceline config docs errors` lists the codes, and "
                                     "`paceline events` the events"});
}

}  // namespace paceline::cli
