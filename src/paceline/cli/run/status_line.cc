#include "paceline/cli/run/status_line.h"

#include <chrono>
#include <optional>
#include <utility>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/number_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/ckpt/rescue.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/host_trouble.h"

namespace paceline::cli {
namespace {

constexpr std::chrono::milliseconds kEvery{500};
constexpr std::chrono::milliseconds kEveryWithoutTerminal{2500};

}  // namespace

std::string LiveLine(const wire::JobStatus& status) {
  std::string line = status.step >= 0 ? Concat("step ", status.step) : status.phase;
  if (status.world_size > 0) {
    Append(&line, " · world ", status.restart_count + 1, " of ", status.world_size,
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

StatusLine::StatusLine(wire::ControlClient& client, Console& console, Place place)
    : client_(client), console_(console), place_(std::move(place)) {
  thread_ = std::thread([this] { Follow(); });
}

StatusLine::~StatusLine() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (place_.has_live_line) console_.SetLiveLine("");
}

bool StatusLine::Pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, place_.has_live_line ? kEvery : kEveryWithoutTerminal,
                 [this] { return is_ending_; });
  return !is_ending_;
}

// Nobody is told what the job waits for on a joined host without a terminal, so an empty status
// will do if the master can be reached.
absl::StatusOr<wire::JobStatus> StatusLine::Ask() {
  if (place_.has_master || place_.has_live_line) return client_.GetStatus();
  if (!place_.is_linked()) return absl::UnavailableError("the master does not answer");
  return wire::JobStatus{};
}

void StatusLine::Follow() {
  told_state_at_ = agent::MonotonicNow();
  while (Pause()) {
    const absl::StatusOr<wire::JobStatus> status = Ask();
    if (place_.has_live_line) {
      console_.SetLiveLine(status.ok() ? LiveLine(*status) : "waiting for the master");
    }
    TellState(status);
    TellWait(status);
    TellRoom();
  }
  TellRoom();
  if (disk_.is_full()) {
    console_.Narrate(Concat("paceline: the disk of ", Visible(place_.run_dir),
                            " is still full at the end of the job: the ranks' last output is "
                            "lost, and so may be the job's last records."));
  }
}

void StatusLine::TellState(const absl::StatusOr<wire::JobStatus>& status) {
  const Instant now = agent::MonotonicNow();
  const bool is_due = now - told_state_at_ >= place_.tell_every;
  // TellWait tells what a job waits for that does not train.
  if (place_.has_live_line || !is_due || !status.ok() || status->phase != "running") return;
  std::string state = LiveLine(*status);
  if (state != told_state_) console_.Narrate(Concat("paceline: ", Visible(state)));
  told_state_ = std::move(state);
  told_state_at_ = now;
}

void StatusLine::TellRoom() {
  if (place_.lost != nullptr) place_.lost->Look();
  const bool was_full = disk_.is_full();
  const std::optional<Duration> full =
      disk_.Look(agent::MonotonicNow(), agent::DiskWatch::FreeBytes(place_.run_dir));
  if (full.has_value()) {
    console_.Narrate(Concat("paceline: the disk of the run directory has room again, after about ",
                            full->seconds(), " s. What the ranks printed meanwhile is lost."));
  } else if (disk_.is_full() && !was_full) {
    console_.Narrate(Concat("paceline: ", FullDiskText(place_.run_dir)));
  }
}

// Agents may have written the directory of the checkpoints since the start.
std::string StatusLine::Rescue() const {
  const std::string command = place_.was_over ? "" : RescueCommand(place_.run_dir);
  if (command.empty()) return "";
  return Concat(" If the master's host is lost for good, `", command,
                "` brings the newest step in the hosts' memory to storage.");
}

void StatusLine::TellWait(const absl::StatusOr<wire::JobStatus>& status) {
  const std::string what = WaitOf(status);
  const Instant now = agent::MonotonicNow();
  // A master that has just ended is no reason for a line, even if the job waited before.
  const bool is_due_for_master = no_master_teller_.Take(now, !status.ok());
  const bool is_due_for_job = teller_.Take(now, status.ok() && place_.has_master && !what.empty());
  if (is_due_for_master && !place_.has_master) {
    console_.Narrate(Concat("paceline: the master at ", place_.master_address,
                            " does not answer. Nothing is decided meanwhile, and after ",
                            ToString(place_.orphan_after), " without it this host's ranks end. ",
                            "`paceline stop` ends this host's part now.", Rescue()));
  } else if (is_due_for_master || is_due_for_job) {
    console_.Narrate(Concat("paceline: ", Visible(what)));
  }
}

}  // namespace paceline::cli
