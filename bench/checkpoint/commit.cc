// The ranks of bench/checkpoint/commit.py, which starts the master, runs this and reads its lines:
//
//   bench_commit HOST:PORT TOKEN_FILE RANKS DIRECTORY ROUNDS
//
// Light agents of one rank each say what their arenas would hold. What a real agent writes is
// written here too: each rank's shard, its notes and its part, by the code of the persister, and
// the commit, which reads all parts and writes the manifest. A JSON line for each checkpoint.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpu_seconds.h"
#include "fleet/fleet.h"
#include "paceline/base/check.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/save.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::bench {
namespace {

constexpr double kPhaseSecondsMax = 120;
constexpr uint64_t kRowBytes = 1000;
constexpr const char* kJob = "bench";

using Clock = std::chrono::steady_clock;

double Between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class Savers {
 public:
  Savers(FleetOptions options, std::string directory)
      : ranks_(options.agents),
        directory_(std::move(directory)),
        store_(ckpt::MakePosixStore(directory_)),
        reports_(options.agents),
        durable_(options.agents, -1),
        has_started_(options.agents),
        ordered_to_(options.agents) {
    options.on_order = [this](uint32_t number, const CheckpointOrder& order) {
      Obey(number, order);
    };
    fleet_ = std::make_unique<Fleet>(std::move(options));
  }

  // All are in the world, which begins with nothing.
  bool Join() {
    const auto joined = [&] { return fleet_->TakenIn(1) >= ranks_; };
    if (!fleet_->Serve(joined, kPhaseSecondsMax)) return false;
    for (uint32_t number = 0; number < ranks_; ++number) {
      Describe(number, {});
      fleet_->Tell(number, reports_[number]);
    }
    return fleet_->Serve([&] { return started_ == ranks_; }, kPhaseSecondsMax);
  }

  // Each rank has this step in memory, and the last of all shards is told alone or with all others.
  bool Round(int64_t step, bool is_alone) {
    written_.clear();
    committed_.reset();
    for (uint32_t number = 0; number < ranks_; ++number) {
      Describe(number, std::max(step, held_));
      fleet_->Tell(number, reports_[number]);
    }
    // One shard at a time, between the heartbeats; that they are durable is told below.
    const auto all_written = [&] {
      if (!to_write_.empty()) {
        const auto [number, order] = std::move(to_write_.front());
        to_write_.pop_front();
        Persist(number, order);
      }
      return written_.size() == ranks_;
    };
    if (!fleet_->Serve(all_written, kPhaseSecondsMax)) return false;
    const uint32_t last = written_.back();
    if (is_alone) {
      for (const uint32_t number : written_) {
        if (number != last) fleet_->Tell(number, reports_[number]);
      }
      fleet_->Serve([] { return false; }, 0.3);  // the master has heard them all
    }
    const auto start = Clock::now();
    if (is_alone) {
      fleet_->Tell(last, reports_[last]);
    } else {
      for (const uint32_t number : written_) fleet_->Tell(number, reports_[number]);
    }
    if (!fleet_->Serve([&] { return AllKnow(); }, kPhaseSecondsMax)) return false;
    const auto end = Clock::now();
    printf(
        "{\"step\":%lld,\"alone\":%s,\"ordered\":%.6f,\"committed\":%.6f,\"all_told\":%.6f,"
        "\"client_cpu\":%.3f}\n",
        static_cast<long long>(saved_.step), is_alone ? "true" : "false", Between(start, ordered_),
        Between(start, *committed_), Between(start, end), OwnCpuSeconds());
    fflush(stdout);
    return true;
  }

 private:
  uint32_t RankOf(uint32_t number) const {
    return static_cast<uint32_t>(fleet_->AssignmentOf(number).first_rank);
  }

  void Describe(uint32_t number, std::optional<int64_t> step) {
    const Assignment& assignment = fleet_->AssignmentOf(number);
    const uint32_t rank = RankOf(number);
    CheckpointReport& report = reports_[number];
    report.generation = assignment.generation;
    report.place = Fleet::NameOf(number);
    report.domain = report.place;
    report.terms =
        CheckpointTerms{.directory = directory_,
                        .keep = 2,
                        .policy = {.kind = PersistPolicy::Kind::kSteps, .steps = 1, .time = {}},
                        .replicas = 0};
    if (!step.has_value()) return;
    report.images = {{.rank = Rank(rank),
                      .place = report.place,
                      .saved = {assignment.generation.value(), *step},
                      .world_size = ranks_,
                      .file_bytes = kRowBytes,
                      .file_root = rank + 1,
                      .root = rank + 1}};
  }

  void Obey(uint32_t number, const CheckpointOrder& order) {
    CheckpointReport& report = reports_[number];
    if (order.restore.has_value() && !has_started_[number]) {
      has_started_[number] = true;
      ++started_;
    }
    if (order.durable.has_value()) durable_[number] = order.durable->step;
    // As a rank that saves every step: the one that is asked for comes at once.
    if (order.hold.has_value() && !report.images.empty() &&
        report.images[0].saved.step < order.hold->step) {
      held_ = order.hold->step;
      Describe(number, held_);
      fleet_->Tell(number, report);
    }
    if (order.persist.has_value() && ordered_to_[number] < order.persist->saved) {
      ordered_to_[number] = order.persist->saved;
      to_write_.emplace_back(number, *order.persist);
    }
    if (order.commit.has_value() && !committed_.has_value()) {
      ordered_ = Clock::now();
      const Result<ckpt::Manifest> manifest = ckpt::Commit(store_.get(), {*order.commit, kJob});
      CHECK(manifest.ok(), "a whole checkpoint can be committed");
      committed_ = Clock::now();
      report.commit =
          CommitState{.name = order.commit->name, .is_done = true, .bytes = manifest->bytes()};
      fleet_->Tell(number, report);
    }
  }

  void Persist(uint32_t number, const PersistOrder& order) {
    const uint32_t rank = RankOf(number);
    const ckpt::Image layout = *ckpt::LayOut(
        {{.key = "w", .dtype = ckpt::DType::kU8, .shape = {1, kRowBytes}, .offset = {rank, 0}}},
        {});
    const std::string path = directory_ + "/arena";
    ::unlink(path.c_str());
    auto arena = ckpt::Arena::OpenOrMake(path, {kJob, "boot", rank}, {100'000, 2});
    CHECK(arena.ok() && (*arena)->Reserve(0).ok(), "there is memory for the arena");
    const std::vector<std::byte> bytes(kRowBytes, static_cast<std::byte>(rank));
    const std::vector<const void*> sources = {bytes.data()};
    CHECK(ckpt::Save(arena->get(), layout, sources,
                     {.saved = order.saved, .world_size = ranks_, .notes = "{}"})
              .ok(),
          "it fits");
    const ArenaImage image = (*arena)->Sealed().front();
    ckpt::MemorySource file((*arena)->FileOf(image));
    ckpt::MemorySource notes((*arena)->NotesOf(image));
    const ckpt::ShardPlace place{
        .name = order.name, .job_id = kJob, .saved = order.saved, .rank = rank, .file_of = rank};
    const ckpt::ShardImage shard{.file = &file,
                                 .file_hashes = (*arena)->FileHashesOf(image),
                                 .notes = &notes,
                                 .notes_hashes = (*arena)->NotesHashesOf(image)};
    CHECK(ckpt::WriteShard(store_.get(), place, shard, nullptr).ok(), "the shard can be written");
    saved_ = order.saved;
    reports_[number].shards = {{.rank = Rank(rank), .saved = order.saved, .is_durable = true}};
    written_.push_back(number);
  }

  bool AllKnow() const {
    if (!committed_.has_value()) return false;
    for (const uint32_t number : written_) {
      if (durable_[number] != saved_.step) return false;
    }
    return true;
  }

  const uint32_t ranks_;
  const std::string directory_;
  const std::unique_ptr<ckpt::Store> store_;
  std::unique_ptr<Fleet> fleet_;
  std::vector<CheckpointReport> reports_;  // by agent
  std::vector<int64_t> durable_;           // newest that the agent was told of
  std::vector<bool> has_started_;
  std::vector<SavedStep> ordered_to_;  // newest persist order of each
  std::deque<std::pair<uint32_t, PersistOrder>> to_write_;
  uint32_t started_ = 0;
  int64_t held_ = 0;               // newest step that the master asked to be kept
  SavedStep saved_;                // that goes to storage
  std::vector<uint32_t> written_;  // agents whose shard is durable and not told yet
  Clock::time_point ordered_;
  std::optional<Clock::time_point> committed_;
};

int Main(int argc, char** argv) {
  if (argc != 6) {
    fprintf(stderr, "bench_commit HOST:PORT TOKEN_FILE RANKS DIRECTORY ROUNDS\n");
    return 2;
  }
  FleetOptions options = FleetOf(argv[1], argv[2], static_cast<uint32_t>(atoi(argv[3])));
  options.spares = 0;
  Savers savers(options, argv[4]);
  if (!savers.Join()) return 1;
  const int rounds = atoi(argv[5]);
  for (int round = 0; round < rounds; ++round) {
    if (savers.Round(100 + 10 * round, round % 2 == 0)) continue;
    fprintf(stderr, "round %d did not end\n", round);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::Main(argc, argv); }
