#include "paceline/agent/keepers/private_keeper.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/agent/agent_setup.h"
#include "paceline/agent/keepers/keeper_crew.h"
#include "paceline/agent/keepers/keeper_link.h"
#include "paceline/agent/memory/checkpoint_station.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/ranks/process_watch.h"
#include "paceline/agent/ranks/rank_world.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"
#include "paceline/base/host_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/base/utf8.h"
#include "paceline/core/checkpoint/ledger.h"
#include "paceline/wire/server/master_server.h"

namespace paceline::agent {
namespace {

// The node of this host; with several hosts, of rank 0's host.
constexpr NodeId kOwn(1);
// The keeper stays for this long after its ranks and their launcher have ended, so that the next
// run finds its images in memory.
constexpr int64_t kLingerNs = 60'000'000'000;
// Ended attempts that are remembered, so that their late ranks are refused.
constexpr size_t kPastMax = 256;

// Part of the arenas' paths. It tells hosts apart, and a later keeper of this host finds the
// arenas.
std::string NodeName() {
  const std::string host = HostName();
  return host.empty() ? "keeper" : Concat("keeper-", host);
}

// The failure domain of this host: set by the user, or the host alone.
std::string Domain() {
  const char* named = std::getenv("PACELINE_FAILURE_DOMAIN");
  return named != nullptr && *named != '\0' ? CleanText(named) : BootId();
}

class PrivateKeeper {
 public:
  PrivateKeeper(std::unique_ptr<Reactor> reactor, const PrivateKeeperOptions& options)
      : reactor_(std::move(reactor)),
        job_id_(options.job_id),
        storage_wait_(options.storage_wait),
        began_(MonotonicNow()),
        ranks_(*reactor_),
        launchers_(*reactor_) {}

  absl::Status Begin(const PrivateKeeperOptions& options) {
    ASSIGN_OR_RETURN(
        station_, CheckpointStation::Open(
                      *reactor_,
                      {.node = NodeName(),
                       .job_id = job_id_,
                       .boot_id = BootId(),
                       .socket = options.socket,
                       .arena_roots = ArenaRoots(job_id_),
                       .tier = options.tier,
                       .store_host = {.python = options.python},
                       .report_every = Duration::Milliseconds(50),
                       .is_private = true},
                      {.report = [this](const CheckpointReport& report) { OnReport(kOwn, report); },
                       .over = [] {},
                       .ranks = [this] { OnRanks(); },
                       .admits = [this](pid_t pid, const auto& open) { return Admit(pid, open); },
                       .leads = [this](const auto& lead) { return Lead(lead); }}));
    idle_since_ns_ = MonotonicNs();
    Form({.attempt = "", .seats = {{NodeId(1), 0, 1}}});
    WatchIdle();
    return absl::OkStatus();
  }

  void Run() { reactor_->Run(); }

 private:
  // Forms a world: for each run of a single process, and for each start of all ranks by a launcher.
  // `drops_memory`: images in memory are outdated.
  void Form(const RankWorld& world, bool drops_memory = false) {
    is_ending_ = false;
    station_->ReleaseClaim();
    // Ends the earlier world's crew. Rank 0's keeper may already have made the next one.
    const bool is_crew_past = crew_ != nullptr && crew_->attempt() == attempt_;
    if (is_crew_past) crew_.reset();
    if (!attempt_.empty()) past_.push_back(attempt_);
    if (past_.size() > kPastMax) past_.pop_front();
    attempt_ = world.attempt;
    world_ = World{.generation = NextGeneration(world), .seats = world.seats};
    if (drops_memory) counts_from_ = world_.generation.value();
    LogInfo("world", {{"generation", world_.generation},
                      {"ranks", world_.world_size()},
                      {"hosts", world.hosts},
                      {"host", world.host}});
    // In a world of several hosts nodes get new numbers.
    if (hosts_ > 1 || world.hosts > 1) ledger_ = {};
    hosts_ = world.hosts;
    if (world.host == 0) link_.reset();
    if (world.hosts > 1 && world.host == 0) {
      station_->OpenToPeers({crew_->address(), Domain(), crew_->credentials()});
      crew_->Begin(world_.generation);
    }
    station_->SetGeneration(world_.generation);
    station_->TellNow();
  }

  // Compares the directory with memory, because anybody may have changed it between two runs.
  // Checkpoints that another path stored since are newer than the memory here. If the checkpoint
  // that was stored last is gone, somebody has removed it or put a backup in its place, and does
  // not want it back from memory. A damaged one still has its name. Returns true if the memory is
  // outdated.
  bool Compare(SavedStep in_directory) {
    station_->LookAnew();
    // Only from the second look on: if no earlier run saw the directory, generations began at 1
    // here.
    if (std::exchange(has_compared_, true)) {
      counts_from_ = std::max(counts_from_, in_directory.generation);
    }
    const std::optional<core::CheckpointCommitted>& committed = book_.committed;
    if (!committed.has_value() || in_directory >= committed->saved) return false;
    LogInfo("memory_dropped", {{"why", Concat(committed->name, " was removed")}});
    book_.committed.reset();
    return true;
  }

  Generation NextGeneration(const RankWorld& world) const {
    if (world.host > 0) return begun_;
    const uint64_t others = world.hosts > 1 ? crew_->newest_generation() : 0;
    // Storage refuses a generation lower than one that an earlier keeper has stored.
    const uint64_t newest = std::max({station_->NewestImage(), others, stored_generation_});
    if (IsOfDeadKeeper(world) && world.generation >= newest) return Generation(world.generation);
    return Generation(std::max(newest, world_.generation.value()) + 1);
  }

  // True for ranks of a dead keeper. This new keeper lets them keep their world.
  bool IsOfDeadKeeper(const RankWorld& world) const {
    return world.generation != 0 && book_.restore.generation == Generation();
  }

  void OnReport(NodeId node, CheckpointReport report) {
    if (link_ != nullptr) {
      link_->Send(report);  // after a failure the next connection reports it again
      return;
    }
    std::erase_if(report.images, [this](const MemoryImage& image) {
      return image.saved.generation < counts_from_;
    });
    ledger_.Report(node, std::move(report));
    Settle();
  }

  // ---- several hosts: docs/adr/0017 ----

  // Rank 0 asks this before it publishes its world.
  nlohmann::json Lead(const nlohmann::json& lead) {
    const std::string attempt = JsonText(lead, "attempt");
    if (crew_ == nullptr || crew_->attempt() != attempt) {
      auto crew = KeeperCrew::Start(
          *reactor_, attempt, job_id_, JsonText(lead, "address"),
          {.changed = [this] { reactor_->Post([this] { OnCrew(); }); },
           .report = [this](NodeId node, const auto& report) { OnReport(node, report); },
           .lost =
               [this](NodeId node) {
                 ledger_.Forget(node);
                 Settle();
               }});
      if (!crew.ok()) {
        return {{"op", "error"},
                {"what", "the keepers of several hosts cannot talk to each other"},
                {"why", std::string(Text(crew.status()))},
                {"fix", "set MASTER_ADDR to an address of rank 0's host"}};
      }
      crew_ = *std::move(crew);
    }
    return {{"op", "leads"}, {"join", crew_->join()}};
  }

  void OnCrew() {
    station_->Readmit();
    if (crew_ != nullptr && crew_->attempt() == attempt_) EndWhenAllHaveGone();
    WatchIdle();
  }

  void Join(const RankWorld& world) {
    crew_.reset();
    begun_ = Generation();
    joined_ = world.attempt;
    NodeReport identity;
    identity.boot_id = BootId();
    identity.agent_pid = ::getpid();
    identity.address = world.address;
    identity.generation = Generation(std::max(station_->NewestImage(), world_.generation.value()));
    const auto began = [this](Generation generation) {
      begun_ = generation;
      reactor_->Post([this] { station_->Readmit(); });
    };
    const auto order = [this](const CheckpointOrder& order) {
      station_->Take(order);
      if (order.is_over) reactor_->Post([this] { Leave(); });
    };
    link_ = std::make_unique<KeeperLink>(
        *reactor_, KeeperLink::Setup{.join = world.join, .host = world.host, .identity = identity},
        KeeperLink::Listener{.enrolled =
                                 [this, address = world.address](const auto& credentials) {
                                   station_->OpenToPeers({address, Domain(), credentials});
                                 },
                             .opened = [this] { station_->TellNow(); },
                             .began = began,
                             .order = order,
                             .broken = [this] { OnIdle(); }});
  }

  // This host's images are not needed for this world any more.
  void Leave() {
    if (link_ == nullptr || !station_->is_over()) return;
    link_.reset();
    OnIdle();
  }

  // True if all hosts of that world are connected, so that its ranks may train.
  bool HasBegun(const RankWorld& world) {
    if (world.hosts == 1) return true;
    if (world.host == 0) {
      const bool is_its_crew = crew_ != nullptr && crew_->attempt() == world.attempt;
      return is_its_crew && crew_->IsWhole(world.hosts);
    }
    if (link_ == nullptr || joined_ != world.attempt) Join(world);
    return begun_ > Generation();
  }

  core::CheckpointView View() const {
    return {.book = book_,
            .world = &world_,
            .job_id = job_id_,
            .is_ending = is_ending_,
            .age = MonotonicNow() - began_,
            .has_ended = {},
            .members = Members(),
            // No retries once all ranks have ended: only the next run would wait.
            .storage_wait = is_ending_ ? Duration() : storage_wait_};
  }

  std::vector<NodeId> Members() const {
    std::vector<NodeId> members = {kOwn};
    if (hosts_ == 1 || crew_ == nullptr) return members;
    for (const NodeId node : crew_->Connected()) members.push_back(node);
    return members;
  }

  CheckpointStation::Admission Admit(pid_t pid, const nlohmann::json& open) {
    const std::optional<RankWorld> world = RankWorldIn(open);
    if (!world.has_value()) return {.problem = NoSuchWorld()};
    if (std::find(past_.begin(), past_.end(), world->attempt) != past_.end()) {
      return {.problem = IsPast()};
    }
    Follow(pid, LauncherIn(open));
    const bool is_alone = world->attempt.empty();
    const bool is_same = world->attempt == attempt_;
    // A single process waits until the earlier run's newest step is in storage. Ranks that a
    // launcher restarts continue from memory at once.
    if (is_alone && is_ending_) {
      return {.waits_for = "the newest step of the run before to reach storage"};
    }
    if (!is_same && station_->has_ranks()) return {.waits_for = "the ranks before these to end"};
    if (!is_same && !HasBegun(*world)) {
      return {.waits_for = world->host == 0 ? "the keepers of the other hosts"
                                            : "the keeper of rank 0's host"};
    }
    const bool is_first = is_alone && !station_->has_ranks() && compared_for_ != pid;
    if (!NoteStored(*world, JsonText(open, "directory"), is_first)) {
      return {.waits_for = "the directory of checkpoints to be read"};
    }
    bool drops_memory = false;
    if ((!is_same || is_first) && world->in_directory.has_value()) {
      compared_for_ = pid;
      drops_memory = Compare(*world->in_directory);
    }
    // The world of a single process was formed before the process came and reported the directory's
    // generations.
    const bool is_behind =
        is_first && (stored_generation_ >= world_.generation.value() || IsOfDeadKeeper(*world));
    if (!is_same || is_behind || drops_memory) Form(*world, drops_memory);
    is_ending_ = false;
    return {};
  }

  // Notes the highest generation in the directory: as the rank saw it at its start, or, if the
  // directory was too slow for the rank, as the keeper sees it. Ranks that a launcher restarts tell
  // nothing, and their keeper knows the directory already. False: the look has not ended yet.
  bool NoteStored(const RankWorld& world, const std::string& directory, bool is_first) {
    std::optional<uint64_t> stored = 0;
    if (world.in_directory.has_value()) {
      stored = world.in_directory->generation;
    } else if (world.host == 0 && (is_first || !knows_stored_)) {
      stored = station_->StoredGeneration(directory);
    }
    if (!stored.has_value()) return false;
    knows_stored_ = true;
    stored_generation_ = std::max(stored_generation_, *stored);
    return true;
  }

  // Watches the process, because its children may hold the connection open; and its launcher,
  // because the job's memory lives as long.
  void Follow(pid_t pid, const ProcessId& launcher) {
    const uint64_t start = pid > 0 && !ranks_.Has(pid) ? StartTimeOf(pid) : 0;
    if (start != 0) ranks_.Add(pid, {pid, start}, [this, pid] { station_->ProcessEnded(pid); });
    if (launcher.pid <= 0 || launchers_.Has(launcher.pid)) return;
    launchers_.Add(launcher.pid, launcher, [this] {
      // Its ranks may have died before their world began.
      if (link_ != nullptr && !station_->has_ranks()) link_->SayRanks(false);
      OnIdle();
    });
  }

  void OnRanks() {
    if (link_ != nullptr) link_->SayRanks(station_->has_ranks());
    if (station_->has_ranks()) return;
    compared_for_ = 0;
    station_->ForgetStored();
    OnIdle();
    station_->Readmit();  // restarted ranks may wait for the end of these
    EndWhenAllHaveGone();
  }

  // All ranks on all hosts have ended: write their newest step to storage now.
  void EndWhenAllHaveGone() {
    const bool has_others = hosts_ > 1 && crew_ != nullptr && crew_->has_ranks();
    if (station_->has_ranks() || has_others || link_ != nullptr || is_ending_) return;
    if (book_.restore.generation != world_.generation) return station_->ReleaseClaim();
    is_ending_ = true;
    station_->TellNow();
  }

  void Settle() {
    if (link_ != nullptr) return;  // rank 0's keeper decides
    std::vector<std::string> said;
    const Instant now = MonotonicNow();
    for (;;) {
      const auto fact = ledger_.Next(now, View(), &said);
      if (!fact.has_value()) break;
      core::Apply(*fact, now, &book_);
    }
    for (const std::string& text : said) LogWarning("checkpoint", {{"why", text}});
    const bool is_new = !ledger_.TakeNewcomers().empty();
    if (ledger_.TakeChanged() || is_new) {
      station_->Take(ledger_.OrderFor(kOwn, View()));
      for (const NodeId node : Members()) {
        if (node != kOwn) crew_->Send(node, ledger_.OrderFor(node, View()));
      }
    }
    reactor_->Cancel(timer_);
    const Instant deadline = ledger_.NextDeadline();
    // A deadline in the past waits for a report.
    const bool is_timed = !deadline.is_max() && deadline > now;
    timer_ = !is_timed ? 0 : reactor_->CallAt(deadline.nanoseconds(), [this] { Settle(); });
    if (is_ending_ && ledger_.is_over()) reactor_->Post([this] { Renew(); });
  }

  void Renew() {
    if (!is_ending_ || !ledger_.is_over()) return;
    station_->LookAnew();  // what the next run restores is decided at its start
    Form({.attempt = "", .seats = {{NodeId(1), 0, 1}}});
    WatchIdle();
  }

  bool IsNeeded() const {
    if (station_->has_ranks() || !launchers_.empty() || is_ending_) return true;
    if (link_ != nullptr) return link_->is_connected();
    return hosts_ > 1 && crew_ != nullptr && crew_->has_ranks();
  }

  void OnIdle() {
    idle_since_ns_ = MonotonicNs();
    WatchIdle();
  }

  // Ends the keeper when it has been idle for a while.
  void WatchIdle() {
    reactor_->Cancel(std::exchange(idle_timer_, 0));
    if (IsNeeded()) return;
    idle_timer_ = reactor_->CallAt(idle_since_ns_ + kLingerNs, [this] {
      idle_timer_ = 0;
      if (station_->has_unclaimed()) return OnIdle();
      if (IsNeeded()) return;
      station_->CleanUp();
      reactor_->Stop();
    });
  }

  static core::AnswerProblem IsPast() {
    return {0, "this rank is of a world that has ended",
            "the launcher has started all ranks again since this one started",
            "nothing to do: this rank is about to be stopped"};
  }

  static core::AnswerProblem NoSuchWorld() {
    return {0, "the request to open a Checkpointer is not valid",
            "its description of its world is not possible",
            "use paceline.torch.Checkpointer, from the same installation on every host"};
  }

  std::unique_ptr<Reactor> reactor_;
  const std::string job_id_;
  const Duration storage_wait_;
  const Instant began_;
  std::unique_ptr<CheckpointStation> station_;
  core::CheckpointLedger ledger_;
  core::CheckpointBook book_;
  World world_;
  std::string attempt_;             // of world_; empty: a single process
  std::deque<std::string> past_;    // ended attempts
  uint32_t hosts_ = 1;              // of world_
  uint64_t counts_from_ = 0;        // the generation; older images in memory are outdated
  bool has_compared_ = false;       // a run has reported the content of the directory
  uint64_t stored_generation_ = 0;  // the highest one in the directory
  bool knows_stored_ = false;       // the directory was read for stored_generation_, or is away
  pid_t compared_for_ = 0;          // the single process whose look at the directory was used
  std::string joined_;              // the attempt of link_
  Generation begun_;                // link_'s world, once rank 0's keeper has announced it
  bool is_ending_ = false;          // no rank is left; the newest step goes to storage
  int64_t idle_since_ns_ = 0;       // when the last rank or launcher ended
  Reactor::TimerId timer_ = 0;
  Reactor::TimerId idle_timer_ = 0;
  ProcessWatch ranks_;      // by pid
  ProcessWatch launchers_;  // by pid
  // With several hosts, rank 0's host has a crew and the others have a link. Last members, because
  // their threads post to the loop.
  std::unique_ptr<KeeperCrew> crew_;
  std::unique_ptr<KeeperLink> link_;
};

}  // namespace

absl::StatusOr<int> RunPrivateKeeper(const PrivateKeeperOptions& options) {
  BlockAgentSignals();
  // Before any thread starts, because the environment of the process changes. The child processes
  // that speak with object stores do not use gRPC, so the change does not affect them.
  wire::UseOnlyTls13();
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
