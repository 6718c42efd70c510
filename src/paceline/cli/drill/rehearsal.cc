#include "paceline/cli/drill/rehearsal.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "paceline/base/file_text.h"
#include "paceline/base/spawn.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/job/remote.h"

namespace paceline::cli {
namespace {

constexpr Duration kStartMax = Duration::Seconds(180);    // until the fault is there
constexpr Duration kRecoverMax = Duration::Seconds(90);   // beyond the deadline
constexpr Duration kLinger = Duration::Seconds(2);        // for decisions that nobody expects
constexpr Duration kJobEndMax = Duration::Seconds(90);    // of a job that may end
constexpr Duration kForceAfter = Duration::Seconds(20);   // of a job that is stopped
constexpr Duration kPause = Duration::Milliseconds(150);  // between two looks
constexpr size_t kSaidBytesMax = 64 << 10;

int64_t NowNs() { return WallNow().nanoseconds(); }

void TakeAPause() { ::poll(nullptr, 0, static_cast<int>(kPause.milliseconds())); }

class Rehearsal {
 public:
  Rehearsal(const DrillStage& stage, const DrillKind& kind, const volatile bool* interrupted)
      : stage_(stage), kind_(kind), interrupted_(interrupted) {}

  Played Play() {
    if (Start() && AwaitStrike()) Watch();
    End();
    return std::move(played_);
  }

 private:
  std::string Folder() const { return Concat(stage_.dir, "/", kind_.name); }
  bool HasOwnScript() const { return !stage_.own_script.empty(); }
  bool Fail(std::string trouble) {
    if (played_.trouble.empty()) played_.trouble = std::move(trouble);
    return false;
  }

  std::vector<std::string> Script() const {
    const bool is_plain = HasOwnScript() && !kind_.IsByRank();
    if (is_plain) return stage_.own_script;
    std::vector<std::string> words = {
        Concat(stage_.dir, HasOwnScript() ? "/around.py" : "/drill_job.py"),
        "--kind",
        std::string(kind_.name),
        "--dir",
        Folder(),
        "--rank",
        Concat(kStruckRank),
        "--at",
        Concat(kStruckStep)};
    words.insert(words.end(), stage_.own_script.begin(), stage_.own_script.end());
    return words;
  }

  std::vector<std::string> Command() const {
    std::vector<std::string> words = {stage_.program, "run", "--run-dir",
                                      RunDirOfDrill(stage_, kind_), "--standalone"};
    const auto add = [&](std::vector<std::string> more) {
      words.insert(words.end(), more.begin(), more.end());
    };
    if (kind_.IsOfNodes()) {
      const int64_t ranks = HasOwnScript() ? stage_.ranks : 1;
      add({"--local-nodes", "2", "--spares", "1", "--replace-nodes", "off", "--nproc-per-node",
           Concat(ranks)});
    } else {
      add({"--nproc-per-node", Concat(stage_.ranks)});
    }
    add(Script());
    return words;
  }

  std::vector<std::string> Variables() const {
    Environment environment = stage_.environment;
    if (!kind_.IsOfNodes()) {
      // A process that waits for its turn on a busy host is no lost node.
      for (const char* timer : {"LOST_AFTER", "LOST_AFTER_MAX", "REATTACH_WINDOW"}) {
        environment[Concat("PACELINE_TIMERS_", timer)] = "60s";
      }
    }
    std::vector<std::string> words;
    for (const auto& [name, value] : environment) words.push_back(Concat(name, "=", value));
    return words;
  }

  bool Start() {
    if (::mkdir(Folder().c_str(), 0700) != 0) return Fail("its folder cannot be made");
    auto started = SpawnDetached({.argv = Command(),
                                  .env = Variables(),
                                  .cwd = stage_.cwd,
                                  .output_path = Folder() + "/output"});
    if (!started.ok()) return Fail(std::string(started.status().message()));
    launcher_ = *std::move(started);
    return true;
  }

  // Returns false if `until` has not come true in time, or the job has ended.
  bool Await(Duration patience, std::string_view what, const std::function<bool()>& until) {
    const Instant end = WallNow() + patience;
    while (!until()) {
      if (*interrupted_) return Fail("interrupted");
      if (HasEnded()) return Fail(Concat("the job ended before ", what, LastWords()));
      if (WallNow() > end) return Fail(Concat("too late: ", what));
      TakeAPause();
    }
    return true;
  }

  bool HasEnded() {
    if (status_.has_value() || launcher_.pid == 0) return true;
    pollfd ended{launcher_.pidfd.get(), POLLIN, 0};
    if (::poll(&ended, 1, 0) != 1) return false;
    status_ = ReapProcess(launcher_.pid);
    return true;
  }

  // The end of what the job said, after a colon.
  std::string LastWords() const {
    const std::string said = ReadTail(Folder() + "/output", kSaidBytesMax);
    const std::vector<std::string_view> lines = SplitParts(said, "\n");
    return lines.empty() ? "" : Concat(": ", lines.back());
  }

  std::optional<JobPlace> Place() const {
    auto place = ReadJobPlace(RunDirOfDrill(stage_, kind_));
    if (!place.ok()) return std::nullopt;
    return *std::move(place);
  }

  std::optional<wire::JobStatus> Status() const {
    const auto place = Place();
    if (!place.has_value()) return std::nullopt;
    auto status = StatusOf(*place, kStatusPatience);
    if (!status.ok()) return std::nullopt;
    return *std::move(status);
  }

  // Until the fault is there. If this command causes it, that happens here.
  bool AwaitStrike() {
    if (!kind_.IsByRank()) return AwaitTraining() && StrikeFromOutside();
    played_.struck.rank = kStruckRank;
    const std::string path = Folder() + "/struck";
    return Await(kStartMax, Concat("step ", kStruckStep), [&] {
      const auto at = ParseWhole<int64_t>(Trimmed(ReadText(path, 64)));
      played_.struck.time_ns = at.value_or(0);
      return at.has_value();
    });
  }

  bool AwaitTraining() {
    return Await(kStartMax, Concat("step ", kStruckStep), [&] {
      auto status = Status();
      if (!status.has_value() || status->phase != "running") return false;
      size_t training = 0;
      for (const wire::NodeStatus& node : status->nodes) {
        training += std::count_if(node.ranks.begin(), node.ranks.end(), [](const auto& rank) {
          return rank.pid > 0 && rank.step_count >= kStruckStep;
        });
      }
      before_ = *std::move(status);
      return before_.world_size > 0 && training == before_.world_size;
    });
  }

  // The node of the struck rank.
  const wire::NodeStatus* Victim() const {
    for (const wire::NodeStatus& node : before_.nodes) {
      for (const wire::RankStatus& rank : node.ranks) {
        if (rank.rank == kStruckRank) return &node;
      }
    }
    return nullptr;
  }

  bool StrikeFromOutside() {
    const wire::NodeStatus* victim = Victim();
    const bool is_known = victim != nullptr && victim->agent_pid > 0 && before_.master_pid > 0;
    if (!is_known) return Fail("the job does not tell the pids of its processes");
    played_.struck.time_ns = NowNs();
    if (kind_.strike == Strike::kMaster) return Signal(before_.master_pid, SIGKILL);
    played_.struck.node = victim->name;
    if (kind_.strike == Strike::kAgent) return Signal(victim->agent_pid, SIGKILL);
    // The agent first, which must not tell of its ranks' end.
    if (!Signal(victim->agent_pid, SIGSTOP)) return false;
    const bool is_silent = kind_.strike == Strike::kSilentNode;
    for (const wire::RankStatus& rank : victim->ranks) {
      Signal(-rank.pid, is_silent ? SIGSTOP : SIGKILL);
    }
    if (!is_silent) return Signal(victim->agent_pid, SIGKILL);
    silent_ = *victim;
    return true;
  }

  bool Signal(pid_t pid, int signal) {
    return ::kill(pid, signal) == 0 || Fail(Concat("a process could not be struck: pid ", pid));
  }

  void Look() {
    const auto place = Place();
    if (!place.has_value()) return;
    std::vector<wire::JobEvent> events;
    const Check problem = EventsOf(*place, 1, /*follow=*/false, [&](const wire::JobEvent& event) {
      events.push_back(event);
      return true;
    });
    if (!problem.has_value()) played_.seen = SeenIn(events, played_.struck);
  }

  void Watch() {
    const Seen& seen = played_.seen;
    const Instant struck = Instant::FromNanoseconds(played_.struck.time_ns);
    while (!*interrupted_ && !HasEnded() && !IsComplete(kind_, seen)) {
      const Duration since = WallNow() - struck;
      if (since > kind_.deadline && !seen.found_after.has_value()) break;
      if (since > kind_.deadline + kRecoverMax) break;
      TakeAPause();
      Look();
    }
    if (*interrupted_) Fail("interrupted");
    if (HasEnded()) Fail(Concat("the job ended", LastWords()));
    if (!kind_.rung.empty()) return;
    ::poll(nullptr, 0, static_cast<int>(kLinger.milliseconds()));
    Look();
  }

  void End() {
    if (silent_.has_value()) {
      for (const wire::RankStatus& rank : silent_->ranks) ::kill(-rank.pid, SIGCONT);
      ::kill(silent_->agent_pid, SIGCONT);
    }
    if (launcher_.pid == 0) return;
    const bool may_end = !HasOwnScript() && played_.trouble.empty();
    if (may_end) {
      ReplaceFile(Folder() + "/enough", "", 0600).IgnoreError();
      if (AwaitEnd(kJobEndMax)) {
        const bool is_well = WIFEXITED(*status_) && WEXITSTATUS(*status_) == 0;
        if (!is_well) Fail(Concat("the job did not end well", LastWords()));
        return;
      }
      Fail("the job did not end");
    }
    // As Ctrl-C does. The second one does not wait for the ranks, the third for nothing.
    for (int count = 0; count < 3 && !HasEnded(); ++count) {
      ::kill(launcher_.pid, SIGINT);
      AwaitEnd(kForceAfter);
    }
    if (!HasEnded()) Fail("the job cannot be stopped");
  }

  bool AwaitEnd(Duration patience) {
    const Instant end = WallNow() + patience;
    while (!HasEnded() && WallNow() <= end) TakeAPause();
    return HasEnded();
  }

  const DrillStage& stage_;
  const DrillKind& kind_;
  const volatile bool* interrupted_;
  SpawnedProcess launcher_;
  std::optional<int> status_;  // of the launcher, when it has ended
  wire::JobStatus before_;     // the strike
  std::optional<wire::NodeStatus> silent_;
  Played played_;
};

}  // namespace

std::string RunDirOfDrill(const DrillStage& stage, const DrillKind& kind) {
  return Concat(stage.dir, "/", kind.name, "/run");
}

Played Rehearse(const DrillStage& stage, const DrillKind& kind, const volatile bool* interrupted) {
  return Rehearsal(stage, kind, interrupted).Play();
}

}  // namespace paceline::cli
