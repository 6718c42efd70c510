// `paceline trace`: what the ranks of this host did last, and the events of the job, for Perfetto.

#include <unistd.h>

#include <utility>
#include <vector>

#include "paceline/agent/hang/flight_rings.h"
#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/settings/value.h"
#include "paceline/cli/trace/job_trace.h"

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

std::vector<RankTrace> RanksHere(const JobPlace& place) {
  std::vector<RankTrace> ranks;
  for (agent::HostRing& ring : agent::ReadHostRings(agent::ArenaRoots(place.id).memory)) {
    const std::string process = Concat("/proc/", ring.reading.writer_pid);
    const bool is_alive = ::access(process.c_str(), F_OK) == 0;
    ranks.push_back(
        {.node = std::move(ring.node), .ring = std::move(ring.reading), .is_alive = is_alive});
  }
  return ranks;
}

Problem NoRings(const JobPlace& place) {
  return Problem{.code = "PL-E024",
                 .what = "no rank of the job has left a trace on this host",
                 .where = place.run_dir,
                 .why = "ranks keep their last actions in this host's memory while the job runs",
                 .fix = "run it on a host of the job, while the job runs"};
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
  const auto records = RecordsFromJournal(*place);
  if (!records.ok()) return out.Fail(records.problem());
  std::vector<wire::JobEvent> events;
  EachEvent(*records, 1, [&events](const wire::JobEvent& event) {
    events.push_back(event);
    return true;
  });
  TraceInput input{.job_id = place->id, .records = &*records, .events = &events};
  input.ranks = RanksHere(*place);
  if (input.ranks.empty()) return out.Fail(NoRings(*place));
  const Instant now = WallNow();
  input.hosts = {{now, agent::MonotonicNs()}};
  input.from = now - last;
  const JobTrace trace = MakeJobTrace(input);
  const std::string path = invocation.line.Text("file", "job.pftrace");
  const absl::Status written = WriteNamedFile(path, trace.bytes, 0600);
  if (!written.ok()) return out.Fail(TraceNotWritten(path, written));
  out.Say(Summary(path, trace, now));
  return kExitDone;
}

}  // namespace paceline::cli
