// `paceline report`: the job as one HTML file, to mail or to keep.

#include "paceline/cli/page/report.h"

#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/host_trouble.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/page/document.h"
#include "paceline/cli/page/page_data.h"

namespace paceline::cli {
namespace {

constexpr Flag kReportFlags[] = {
    {.dest = "file",
     .spellings = {"-o", "--out"},
     .metavar = "FILE",
     .help = "the file to write, job.html by default; - is standard output. With --json the file "
             "gets the data, by default on standard output"},
};

Problem NotWritten(const std::string& path, const absl::Status& status) {
  return Problem{.code = "PL-E016",
                 .what = "the report was not written",
                 .where = path,
                 .why = std::string(status.message()),
                 .fix = "name another file with -o"};
}

Result<nlohmann::ordered_json> DataOfJob(const JobPlace& place) {
  const auto records = RecordsFromJournal(place);
  if (!records.ok()) return records.problem();
  const auto status = StatusOf(place, kStatusPatience);
  if (!status.ok()) return status.problem();
  std::vector<wire::JobEvent> events;
  EachEvent(*records, 1, [&events](const wire::JobEvent& event) {
    events.push_back(event);
    return true;
  });
  const std::vector<std::string> troubles = HostTroubles(place, status->phase == "finished");
  return PageData({.job_id = place.id,
                   .name = place.name,
                   .run_dir = place.run_dir,
                   .status = *status,
                   .records = *records,
                   .events = events,
                   .troubles = troubles,
                   .now = WallNow()});
}

}  // namespace

FlagTable ReportFlags() { return kReportFlags; }

int RunReport(Invocation& invocation) {
  Output& out = invocation.out;
  const auto place = JobOf(invocation, JobUse::kHere);
  if (!place.ok()) return out.Fail(place.problem());
  const auto data = DataOfJob(*place);
  if (!data.ok()) return out.Fail(data.problem());
  const std::string json = PrintJson(*data);
  return KeepReport(out.is_json() ? json + "\n" : PageDocument("paceline: " + place->id, json),
                    invocation);
}

std::string ReportFile(const Invocation& invocation) {
  return invocation.line.Text("file", invocation.out.is_json() ? "-" : "job.html");
}

int KeepReport(const std::string& text, Invocation& invocation) {
  Output& out = invocation.out;
  const std::string path = ReportFile(invocation);
  if (path == "-") {
    out.FileBytes(text);
    return kExitDone;
  }
  const absl::Status written = WriteNamedFile(path, text, 0600);
  if (!written.ok()) return out.Fail(NotWritten(path, written));
  out.Say(Concat("wrote ", Visible(path), " (", text.size() / 1024 + 1, " KiB)",
                 out.is_json() ? "" : "; it opens in any browser, without a network"));
  return kExitDone;
}

}  // namespace paceline::cli
