// `paceline trace`: what the ranks of a job did last, and its events, for Perfetto. The master asks
// the agents for the ranks' rings. Rings of nodes on this host are read here if nobody tells them.

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "paceline/agent/hang/flight_rings.h"
#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/silent_master.h"
#include "paceline/cli/settings/value.h"
#include "paceline/cli/trace/job_trace.h"
#include "paceline/cli/trace/node_rings.h"
#include "paceline/cli/trace/ring_tour.h"

namespace paceline::cli {
namespace {

constexpr Flag kTraceFlags[] = {
    {.dest = "last",
     .spellings = {"--last"},
     .kind = FlagKind::kDuration,
     .metavar = "TIME",
     .help = "how far the trace goes back, 30s by default; a rank keeps its last 4,096 actions"},
    {.dest = "file",
     .spellings = {"-o", "--out"},
     .metavar = "FILE",
     .help = "the file to write, job.pftrace by default"},
};

HostNow NowHere() { return {WallNow(), agent::MonotonicNs()}; }

// Adds the rings in this host's memory of nodes that have not told theirs.
void AddRingsHere(const JobPlace& place, Duration last, RingTour* tour) {
  std::vector<NodeRings> found;
  std::set<std::string> alive;  // nodes with a living rank on this host
  for (const agent::HostRing& ring : agent::ReadHostRings(agent::ArenaRoots(place.id).memory)) {
    const HostNow now = NowHere();
    const std::string process = Concat("/proc/", ring.reading.writer_pid);
    RingSlice slice = CutRing(ring.reading, std::numeric_limits<uint64_t>::max(),
                              now.monotonic_ns - last.nanoseconds(), kRingRecords);
    slice.is_alive = ::access(process.c_str(), F_OK) == 0;
    if (slice.is_alive) alive.insert(ring.node);
    NodeRings& node = found.emplace_back(ring.node, last);
    (void)node.Take({.boot_id = agent::BootId(), .now = now, .has_ring = true, .slice = slice});
  }
  std::set<std::string> silent;
  for (const RingTour::Silent& one : tour->silent) silent.insert(one.node);
  const auto is_here = [&](const std::string& node) {
    return silent.contains(node) && alive.contains(node);
  };
  std::erase_if(tour->silent, [&](const RingTour::Silent& one) { return is_here(one.node); });
  std::erase_if(tour->nodes, [&](const NodeRings& one) { return is_here(one.node()); });
  std::set<std::string> told;
  for (const NodeRings& node : tour->nodes) told.insert(node.node());
  std::erase_if(found, [&](const NodeRings& one) { return told.contains(one.node()); });
  std::ranges::move(found, std::back_inserter(tour->nodes));
}

// The nodes that may have rings.
std::vector<std::string> NodesToAsk(const wire::JobStatus& status) {
  std::vector<std::string> names;
  for (const wire::NodeStatus& node : status.nodes) {
    if (node.connected || node.state == "seated") names.push_back(node.name);
  }
  return names;
}

// What all nodes tell. If no master of this host answers, that is said, and nobody is asked.
Result<RingTour> AskForRings(const JobPlace& place, Duration last, Output& out) {
  if (place.kept != nullptr || (!place.is_joined && !place.is_running())) return RingTour();
  const auto options = ControlOptions(place, kFirstAnswerPatience);
  if (!options.ok()) return options.problem();
  const auto status = wire::ControlClient(*options).GetStatus();
  if (status.ok()) return TourRings(*options, NodesToAsk(*status), last);
  if (!IsAway(status.status())) return ProblemFrom(status.status());
  if (place.is_joined) return MasterIsSilent(place);
  out.Say("the master does not answer, so only ranks of this host are in the trace");
  return RingTour();
}

Result<std::vector<wire::JobEvent>> EventsToTrace(const JobPlace& place) {
  std::vector<wire::JobEvent> events;
  const auto take = [&events](const wire::JobEvent& event) {
    events.push_back(event);
    return true;
  };
  // The journal is read even if the master stands still.
  const bool is_far = place.is_joined || place.kept != nullptr;
  const Check problem =
      is_far ? EventsOf(place, 1, /*follow=*/false, take) : EventsFromJournal(place, 1, take);
  if (problem.has_value()) return *problem;
  return events;
}

void SayWhatIsMissing(const RingTour& tour, const TracedHosts& hosts, const JobTrace& trace,
                      Output& out) {
  for (const RingTour::Silent& silent : tour.silent) {
    out.Say(Concat("ranks of ", Visible(silent.node), " are missing: ", Visible(silent.why)));
  }
  if (tour.is_cut) {
    out.Say(Concat("actions are missing: the trace is full at ", kTraceRecordsMax,
                   "; ask for less time with --last"));
  }
  for (const size_t host : trace.unaligned) {
    const std::string nodes = hosts.NodesOn(host);
    if (nodes.empty()) continue;
    out.Say(Concat("times of ", Visible(nodes),
                   " are by the clock of that host: it has too few collectives in common with "
                   "the others"));
  }
}

Problem NoRings(const JobPlace& place) {
  return Problem{.code = "PL-E024",
                 .what = "no rank of the job has left a trace",
                 .where = place.run_dir,
                 .why = "ranks keep their last actions in their host's memory while the job runs",
                 .fix = "paceline trace while the job runs"};
}

Problem NoTime(const std::string& asked) {
  return Problem{.code = "PL-E003",
                 .what = Concat("--last cannot be ", asked),
                 .where = "the command line",
                 .why = "a trace of no time is empty",
                 .fix = "paceline trace --last 30s"};
}

Problem NoJsonForm() {
  return Problem{.code = "PL-E010",
                 .what = "paceline trace has no JSON to print",
                 .where = "--json",
                 .why = "a trace is a file in Perfetto's own form, which is binary",
                 .fix =
                     "leave --json out; ui.perfetto.dev opens the file, and paceline events --json "
                     "prints the job's events"};
}

// The folder of the file, or "." for a bare name.
std::string FolderOfTrace(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Problem TraceNotWritten(const std::string& path, const absl::Status& status) {
  const std::string folder = FolderOfTrace(path);
  const bool is_there = ::access(folder.c_str(), F_OK) == 0;
  return Problem{
      .code = "PL-E016",
      .what = "the trace was not written",
      .where = path,
      .why = is_there ? std::string(status.message()) : "there is no directory " + folder,
      .fix = is_there ? "free space there, or name another file with -o"
                      : "mkdir -p " + ShellWord(folder)};
}

std::string Summary(const std::string& path, const JobTrace& trace, Instant now) {
  std::string text = Concat("wrote ", Visible(path), ": ", Counted(trace.ranks, "rank"),
                            ", the last ", ToString(now - trace.from));
  if (trace.short_rank >= 0) {
    text += Concat("; all ranks for the last ", ToString(now - trace.complete_from),
                   ", because rank ", trace.short_rank, " keeps no older action");
  }
  return text + ".";
}

}  // namespace

FlagTable TraceFlags() { return kTraceFlags; }

int RunTrace(Invocation& invocation) {
  Output& out = invocation.out;
  if (out.is_json()) return out.Fail(NoJsonForm());
  const Duration last =
      ParseDuration(invocation.line.Text("last", "30s")).value_or(Duration::Seconds(30));
  if (last <= Duration()) return out.Fail(NoTime(invocation.line.Text("last")));
  const auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  auto tour = AskForRings(*place, last, out);
  if (!tour.ok()) return out.Fail(tour.problem());
  const auto events = EventsToTrace(*place);
  if (!events.ok()) return out.Fail(events.problem());
  AddRingsHere(*place, last, &*tour);
  if (tour->boot_id.empty()) {
    tour->boot_id = agent::BootId();
    tour->now = NowHere();
  }
  const TracedHosts hosts = JoinNodes(tour->boot_id, tour->now, tour->nodes);
  if (hosts.ranks.empty()) return out.Fail(NoRings(*place));
  const Instant now = tour->now.wall;
  const JobTrace trace = MakeJobTrace({.job_id = place->id,
                                       .hosts = hosts.hosts,
                                       .from = now - last,
                                       .ranks = hosts.ranks,
                                       .events = &*events});
  const std::string path = invocation.line.Text("file", "job.pftrace");
  const absl::Status written = WriteNamedFile(path, trace.bytes, 0600);
  if (!written.ok()) return out.Fail(TraceNotWritten(path, written));
  out.Say(Summary(path, trace, now));
  SayWhatIsMissing(*tour, hosts, trace, out);
  return kExitDone;
}

}  // namespace paceline::cli
