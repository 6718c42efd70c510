#include "paceline/cli/status_line.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/text.h"

namespace paceline::cli {
namespace {

constexpr std::chrono::milliseconds kEvery{500};

}  // namespace

std::string LiveLine(const wire::JobStatus& status) {
  std::string line = status.step >= 0 ? Concat("step ", status.step) : status.phase;
  if (status.world_size > 0) {
    Append(&line, " · world ", status.generation, " of ", status.world_size,
           status.world_size == 1 ? " rank" : " ranks");
  }
  if (status.phase == "running" && status.goodput > 0) {
    line += fmt::format(" · goodput {:.1f} %", status.goodput * 100);
  }
  if (status.loss.has_value()) line += fmt::format(" · loss {:.4f}", *status.loss);
  if (status.failures > 0) {
    Append(&line, " · ", status.failures, status.failures == 1 ? " failure" : " failures",
           " recovered");
  }
  if (status.phase != "running" && !status.pending.empty()) Append(&line, " · ", status.pending);
  return line;
}

StatusLine::StatusLine(wire::ControlClientOptions client, Console& console)
    : options_(std::move(client)), console_(console) {
  options_.timeout = Duration::Seconds(1);
  thread_ = std::thread([this] { Follow(); });
}

StatusLine::~StatusLine() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
  console_.SetLiveLine("");
}

bool StatusLine::Pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, kEvery, [this] { return is_ending_; });
  return !is_ending_;
}

void StatusLine::Follow() {
  wire::ControlClient client(options_);
  while (Pause()) {
    const absl::StatusOr<wire::JobStatus> status = client.GetStatus();
    console_.SetLiveLine(status.ok() ? LiveLine(*status) : "waiting for the master");
  }
}

}  // namespace paceline::cli
