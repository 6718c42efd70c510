#include "paceline/cli/run/status_line.h"

#include <chrono>
#include <utility>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/number_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

constexpr std::chrono::milliseconds kEvery{500};
constexpr std::chrono::milliseconds kEveryWithoutTerminal{2500};

}  // namespace

std::string LiveLine(const wire::JobStatus& status) {
  std::string line = status.step >= 0 ? Concat("step ", status.step) : status.phase;
  if (status.world_size > 0) {
    Append(&line, " · world ", WorldNumber(status.generation), " of ", status.world_size,
           status.world_size == 1 ? " rank" : " ranks");
  }
  if (status.phase == "running" && status.goodput > 0) {
    Append(&line, " · goodput ", FixedText(status.goodput * 100, 1), " %");
  }
  if (status.loss.has_value()) Append(&line, " · loss ", FixedText(*status.loss, 4));
  if (status.failures > 0) {
    Append(&line, " · ", status.failures, status.failures == 1 ? " failure" : " failures",
           " recovered");
  }
  if (status.phase != "running" && !status.pending.empty()) Append(&line, " · ", status.pending);
  return line;
}

std::string WaitOf(const absl::StatusOr<wire::JobStatus>& status) {
  if (!status.ok()) {
    return Concat("waiting for the master: ", std::string(status.status().message()));
  }
  if (!status->journal.empty() && status->journal != "ok") {
    return Concat("ranks go on, but decisions wait until the journal is written: ",
                  status->journal);
  }
  return status->phase == "running" || status->phase == "finished" ? "" : status->pending;
}

StatusLine::StatusLine(wire::ControlClient& client, Console& console, bool has_live_line)
    : client_(client), console_(console), has_live_line_(has_live_line) {
  thread_ = std::thread([this] { Follow(); });
}

StatusLine::~StatusLine() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (has_live_line_) console_.SetLiveLine("");
}

bool StatusLine::Pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, has_live_line_ ? kEvery : kEveryWithoutTerminal,
                 [this] { return is_ending_; });
  return !is_ending_;
}

void StatusLine::Follow() {
  while (Pause()) {
    const absl::StatusOr<wire::JobStatus> status = client_.GetStatus();
    if (has_live_line_) {
      console_.SetLiveLine(status.ok() ? LiveLine(*status) : "waiting for the master");
    }
    TellWait(status);
  }
}

void StatusLine::TellWait(const absl::StatusOr<wire::JobStatus>& status) {
  const std::string what = WaitOf(status);
  if (!teller_.Take(agent::MonotonicNow(), !what.empty())) return;
  console_.Narrate(Concat("paceline: ", Visible(what)));
}

}  // namespace paceline::cli
