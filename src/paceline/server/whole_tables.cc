#include "paceline/server/whole_tables.h"

#include <unistd.h>

#include "paceline/base/file_text.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::server {

absl::Status CheckFirstLoad(const FirstLoad& load) {
  constexpr size_t kTextMax = 4096;
  const std::string path = Concat(load.directory, "/server-", load.server, ".refused");
  const std::string head = Concat(load.job_id, "\n");
  if (load.restarts == 0) {
    ::unlink(path.c_str());
    if (load.lost.empty() || load.counted > 0) return absl::OkStatus();
    RETURN_IF_ERROR(ReplaceFile(path, head + load.lost, 0600));
  }
  const std::string text = ReadText(path, kTextMax);
  if (!text.starts_with(head)) return absl::OkStatus();
  return absl::OutOfRangeError(text.substr(head.size()));
}

}  // namespace paceline::server
