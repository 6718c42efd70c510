// `paceline events`: the journal's records in their order.

#include <algorithm>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/settings/value.h"
#include "paceline/wire/codec/control_json.h"

namespace paceline::cli {
namespace {

constexpr Flag kEventsFlags[] = {
    {.dest = "since",
     .spellings = {"--since"},
     .kind = FlagKind::kDuration,
     .metavar = "TIME",
     .help = "only the last 10m, 2h …"},
    {.dest = "from",
     .spellings = {"--from"},
     .kind = FlagKind::kInteger,
     .metavar = "SEQ",
     .help = "begin with this event; 1 by default",
     .minimum = 0},
    {.dest = "kind",
     .spellings = {"--kind"},
     .kind = FlagKind::kList,
     .metavar = "KIND,…",
     .help = "only these kinds, such as rank_failed,recovery_decided; an unknown kind is answered "
             "by the list"},
    {.dest = "follow",
     .spellings = {"-f", "--follow"},
     .kind = FlagKind::kSwitch,
     .help = "print new events as they come, until the job ends"},
};

Result<std::vector<std::string>> WantedKinds(const ParsedLine& line) {
  const Given* given = line.Find("kind");
  if (given == nullptr) return std::vector<std::string>();
  const std::vector<std::string_view> known = EventKinds();
  std::vector<std::string> wanted = ParseCommaList(given->value);
  for (const std::string& kind : wanted) {
    if (std::find(known.begin(), known.end(), kind) != known.end()) continue;
    const std::string_view nearest = Nearest(kind, known);
    std::string all;
    for (const std::string_view name : known) {
      all += (all.empty() ? "" : ", ") + std::string(name);
    }
    return Problem{.code = "PL-E003",
                   .what = "there is no kind of event \"" + kind + "\"",
                   .where = "the flag --kind",
                   .why = "kinds are " + all,
                   .fix = nearest.empty() ? "leave --kind out"
                                          : "did you mean --kind " + std::string(nearest) + "?"};
  }
  return wanted;
}

// The kind that is recorded each minute for `paceline goodput`. People who read events do not want
// it, unless they ask for it.
constexpr std::string_view kKindEachMinute = "time_accounted";

// Filters and prints events.
struct Filter {
  std::vector<std::string> kinds;  // empty: all, or for people all but kKindEachMinute
  bool is_for_people = true;
  int64_t since_ns = INT64_MIN;

  bool Shows(const wire::JobEvent& event) const {
    const bool is_left_out = is_for_people && event.kind == kKindEachMinute;
    const bool is_wanted = kinds.empty()
                               ? !is_left_out
                               : std::find(kinds.begin(), kinds.end(), event.kind) != kinds.end();
    return is_wanted && event.time_ns >= since_ns;
  }
};

}  // namespace

FlagTable EventsFlags() { return kEventsFlags; }

int RunEvents(Invocation& invocation) {
  Output& out = invocation.out;
  auto kinds = WantedKinds(invocation.line);
  if (!kinds.ok()) return out.Fail(kinds.problem());
  auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  Filter filter{.kinds = *std::move(kinds), .is_for_people = !out.is_json()};
  if (const Given* since = invocation.line.Find("since")) {
    filter.since_ns = (WallNow() - ParseDuration(since->value).value_or(Duration())).nanoseconds();
  }
  const int64_t first = invocation.line.Number("from", 1);
  const bool follow = invocation.line.Has("follow");
  if (place->kept != nullptr && !place->kept->events.empty()) {
    out.Say(Concat("the cluster has kept ", place->kept->events.size(), " of the job's ",
                   place->kept->events.back().seq, " events: the newest and those of incidents"));
  }
  const Check problem = EventsOf(*place, static_cast<uint64_t>(std::max<int64_t>(first, 1)), follow,
                                 [&](const wire::JobEvent& event) {
                                   if (!filter.Shows(event)) return true;
                                   if (out.is_json()) {
                                     out.DataLine(wire::EventJson(event));
                                   } else {
                                     out.DataLine(ClipTo(EventLine(event), out.width()));
                                   }
                                   return !follow || out.Flush();
                                 });
  return problem.has_value() ? out.Fail(*problem) : static_cast<int>(kExitDone);
}

}  // namespace paceline::cli
