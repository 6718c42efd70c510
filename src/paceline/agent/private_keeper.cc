#include "paceline/agent/private_keeper.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/agent/agent_setup.h"
#include "paceline/agent/checkpoint_station.h"
#include "paceline/agent/reactor.h"
#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/core/checkpoint_ledger.h"

namespace paceline::agent {
namespace {

constexpr char kNode[] = "private";
// After its process has gone the keeper stays for a while: the next run may find everything warm.
constexpr int64_t kLingerNs = 30'000'000'000;

class PrivateKeeper {
 public:
  PrivateKeeper(std::unique_ptr<Reactor> reactor, const PrivateKeeperOptions& options)
      : reactor_(std::move(reactor)),
        job_id_(options.job_id),
        storage_wait_(options.storage_wait),
        began_(MonotonicNow()) {}

  absl::Status Begin(const PrivateKeeperOptions& options) {
    const std::string boot_id(Trimmed(ReadText("/proc/sys/kernel/random/boot_id", 64)));
    ASSIGN_OR_RETURN(station_, CheckpointStation::Open(*reactor_,
                                                       {.node = kNode,
                                                        .job_id = job_id_,
                                                        .boot_id = boot_id,
                                                        .socket = options.socket,
                                                        .arena_roots = ArenaRoots(job_id_),
                                                        .tier = options.tier,
                                                        .store_host = {.python = options.python},
                                                        .report_every = Duration::Milliseconds(50),
                                                        .is_private = true},
                                                       {.report =
                                                            [this](const CheckpointReport& report) {
                                                              ledger_.Report(NodeId(1), report);
                                                              Settle();
                                                            },
                                                        .over = [] {},
                                                        .ranks = [this] { OnRanks(); }}));
    absent_since_ns_ = MonotonicNs();
    WatchAbsence();
    Form();
    return absl::OkStatus();
  }

  void Run() { reactor_->Run(); }

 private:
  // A world of one rank for each run of the process.
  void Form() {
    is_ending_ = false;
    world_ = World{.generation = Generation(station_->NewestGeneration() + 1),
                   .seats = {{NodeId(1), 0, 1}}};
    station_->SetGeneration(world_.generation);
    station_->TellNow();
  }

  core::CheckpointView View() const {
    return {.book = book_,
            .world = &world_,
            .job_id = job_id_,
            .is_ending = is_ending_,
            .age = MonotonicNow() - began_,
            .has_ended = {},
            .members = {NodeId(1)},
            // Of a process that has ended nobody waits but the next one, which shall not wait long.
            .storage_wait = is_ending_ ? Duration() : storage_wait_};
  }

  void OnRanks() {
    if (station_->has_ranks()) {
      absent_since_ns_ = 0;
      return;
    }
    // The process has ended, or died. Its newest step goes to storage now, and whoever comes next
    // waits for that: it is another world.
    absent_since_ns_ = MonotonicNs();
    WatchAbsence();
    if (book_.restore.generation != world_.generation) return;
    is_ending_ = true;
    station_->Pause();
    station_->TellNow();
  }

  void Settle() {
    std::vector<std::string> said;
    const Instant now = MonotonicNow();
    for (;;) {
      const auto fact = ledger_.Next(now, View(), &said);
      if (!fact.has_value()) break;
      core::Apply(*fact, now, &book_);
    }
    for (const std::string& text : said) LogWarning("checkpoint", {{"why", text}});
    const bool is_new = !ledger_.TakeNewcomers().empty();
    if (ledger_.TakeChanged() || is_new) station_->Take(ledger_.OrderFor(NodeId(1), View()));
    reactor_->Cancel(timer_);
    const Instant deadline = ledger_.NextDeadline();
    // What is due already waits for a report.
    const bool is_timed = !deadline.is_max() && deadline > now;
    timer_ = !is_timed ? 0 : reactor_->CallAt(deadline.nanoseconds(), [this] { Settle(); });
    if (is_ending_ && ledger_.is_over()) reactor_->Post([this] { Renew(); });
  }

  void Renew() {
    if (is_ending_ && ledger_.is_over()) Form();
  }

  void WatchAbsence() {
    reactor_->CallAt(MonotonicNs() + kLingerNs, [this] {
      const bool is_long = absent_since_ns_ != 0 && MonotonicNs() >= absent_since_ns_ + kLingerNs;
      if (!is_long || is_ending_) return;
      station_->CleanUp();
      reactor_->Stop();
    });
  }

  std::unique_ptr<Reactor> reactor_;
  const std::string job_id_;
  const Duration storage_wait_;
  const Instant began_;
  std::unique_ptr<CheckpointStation> station_;
  core::CheckpointLedger ledger_;
  core::CheckpointBook book_;
  World world_;
  bool is_ending_ = false;
  int64_t absent_since_ns_ = 0;
  Reactor::TimerId timer_ = 0;
};

}  // namespace

absl::StatusOr<int> RunPrivateKeeper(const PrivateKeeperOptions& options) {
  BlockAgentSignals();
  const Fd lock(::open((options.socket + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::AlreadyExistsError(Concat("another keeper holds ", options.socket, ".lock"));
  }
  ASSIGN_OR_RETURN(auto reactor, Reactor::Create());
  PrivateKeeper keeper(std::move(reactor), options);
  RETURN_IF_ERROR(keeper.Begin(options));
  keeper.Run();
  return 0;
}

}  // namespace paceline::agent
