#include "paceline/cli/page/live.h"

#include <vector>

#include "paceline/base/json.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/job/host_trouble.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/page/document.h"
#include "paceline/cli/page/page_data.h"

namespace paceline::cli {
namespace {

// The page shows no node or rank by itself, and of 10,000 ranks they would be megabytes at each
// event. So `status` comes without them.
std::string LiveData(const std::string& run_dir, const wire::JobStatus& status,
                     const std::vector<core::Record>& records) {
  std::vector<wire::JobEvent> events;
  EachEvent(records, 1, [&events](const wire::JobEvent& event) {
    events.push_back(event);
    return true;
  });
  std::vector<std::string> troubles;
  const auto place = ReadJobPlace(run_dir);
  if (place.ok()) troubles = HostTroubles(*place, status.phase == "finished");
  return PrintJson(PageData({.job_id = status.job_id,
                             .name = status.name,
                             .run_dir = run_dir,
                             .status = status,
                             .records = records,
                             .events = events,
                             .troubles = troubles,
                             .now = WallNow()}));
}

}  // namespace

master::PageMaker LivePage(const std::string& run_dir) {
  return {
      .shell = LiveDocument(),
      .data = [run_dir](const wire::JobStatus& status, const std::vector<core::Record>& records) {
        return LiveData(run_dir, status, records);
      }};
}

}  // namespace paceline::cli
