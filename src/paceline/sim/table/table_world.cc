#include "paceline/sim/table/table_world.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/base/text.h"
#include "paceline/core/tasks/task_scale.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/data/lease/set_key.h"
#include "paceline/ps/partition_image.h"
#include "paceline/sim/table/table_server.h"

namespace paceline::sim {
namespace {

constexpr std::string_view kSetName = "samples";
constexpr uint64_t kUnit = 3;  // samples of a batch
constexpr uint64_t kBatches = 40;
constexpr uint32_t kServersMost = 4;
constexpr uint64_t kFaultySteps = 900;
constexpr uint64_t kStepsMost = 60'000;

uint64_t KeyOf(uint64_t sample, uint64_t i) { return (sample * 11 + i * 17) % 90 - 45; }

std::map<uint64_t, float> CountsOf(uint64_t begin, uint64_t end) {
  std::map<uint64_t, float> counts;
  for (uint64_t sample = begin; sample < end; ++sample) {
    for (uint64_t i = 0; i < 4; ++i) counts[KeyOf(sample, i)] += 1;
  }
  return counts;
}

uint32_t PartOf(uint64_t key) { return ps::PartitionOf(ps::TableKeyOf("counts"), key); }

struct SimWorker {
  uint64_t number = 0;
  uint64_t incarnation = 0;
  LeasePeer peer;
  bool is_alive = false;
  TableRouting routing;
  bool has_asked = false;
  bool is_complete = false;
  uint64_t requests = 0;
  uint64_t acks = 0;
  uint64_t lease = 0;  // 0: none
  uint64_t begin = 0;  // of the next batch
  uint64_t end = 0;    // of the lease
  std::set<uint32_t> answered;
};

struct LatePush {
  uint32_t server = 0;
  uint64_t generation = 0;
  TableRouting routing;
  uint64_t batch = 0;
};

struct ImagesOnTheWay {
  uint32_t to = 0;
  uint64_t to_generation = 0;
  uint64_t id = 0;
  uint64_t from_generation = 0;
  uint64_t snapshot = 0;
  std::vector<std::string> images;
};

class TableWorld {
 public:
  TableWorld(uint64_t seed, TableCanary canary)
      : prng_(seed), canary_(canary), set_(DataSetKey(kSetName)) {
    LeaseActions actions;
    book_.Boot(1 << 20, &actions);
    JobSpec spec;
    spec.job_id = "tables";
    spec.tasks = {
        .workers = 2, .servers = static_cast<uint32_t>(1 + prng_.Below(3)), .tables = "/tables"};
    Record(core::JobCreated{spec});
    Place(false);
    workers_.resize(2 + prng_.Below(2));
    for (size_t i = 0; i < workers_.size(); ++i) workers_[i].number = i;
  }

  TableOutcome Run() {
    uint64_t step = 0;
    for (; step < kStepsMost && wrong_.empty() && !IsOver(); ++step) {
      is_calm_ = step >= kFaultySteps;
      now_ += Duration::Milliseconds(static_cast<int64_t>(prng_.Below(3)));
      Step();
    }
    if (wrong_.empty() && !IsOver()) wrong_ = "did not end";
    if (wrong_.empty()) Judge();
    return {.wrong = wrong_,
            .pushes = pushes_,
            .moves = state_.routing.version() - 1,
            .losses = losses_,
            .unseed = prng_.Next()};
  }

 private:
  // ---- the master ----

  void Record(core::Fact fact) {
    journal_.push_back({.seq = state_.last_seq.next(), .at = now_, .causes = {}, .fact = fact});
    core::Apply(journal_.back(), &state_);
  }

  // A new master folds the journal.
  void RestartMaster() {
    state_ = {};
    for (const core::Record& record : journal_) core::Apply(record, &state_);
  }

  // Starts a process for each wanted task that has none, and ends those of other tasks. `anew`:
  // also for tasks whose server has died.
  void Place(bool anew) {
    std::vector<paceline::Task> tasks;
    std::vector<paceline::Task> started;
    for (const Rank rank : core::WantedTasks(state_)) {
      const auto known = std::find_if(state_.tasks.begin(), state_.tasks.end(),
                                      [&](const auto& one) { return one.task.rank == rank; });
      paceline::Task task{.rank = rank, .generation = state_.generation.next()};
      const bool is_server = KindOfTask(rank) == TaskKind::kPs;
      const bool is_dead =
          is_server && known != state_.tasks.end() && !servers_.contains(NumberOfTask(rank));
      if (known != state_.tasks.end()) task = known->task;
      if (is_dead && anew) {
        task.generation = state_.generation.next();
        ++task.restarts;
      }
      const bool is_new = known == state_.tasks.end() || (is_dead && anew);
      if (is_new && is_server) started.push_back(task);
      tasks.push_back(task);
    }
    if (started.empty() && tasks.size() == state_.tasks.size()) return;
    Record(core::TasksPlaced{.tasks = tasks, .reason = "placed"});
    for (auto it = servers_.begin(); it != servers_.end();) {
      const uint32_t number = it->first;
      const bool is_wanted = std::any_of(
          tasks.begin(), tasks.end(),
          [&](const paceline::Task& task) { return task.rank == TaskRank(TaskKind::kPs, number); });
      it = is_wanted ? std::next(it) : servers_.erase(it);
    }
    for (const paceline::Task& task : started) StartServer(task);
  }

  void StartServer(const paceline::Task& task) {
    const uint32_t number = NumberOfTask(task.rank);
    auto server = std::make_unique<SimTableServer>(number, task.generation.value(),
                                                   core::NewsFor(state_), &disk_);
    const IntervalSet have = server->Load(set_);
    if (server->share.own().any()) {
      Handle({.link = 2, .peer = number},
             {.op = LeaseOp::kTablesHave,
              .number = number,
              .begin = task.restarts,
              .text = have.empty() ? "" : Concat(set_, " ", RangesToText(have.Ranges()), "\n")});
    }
    servers_[number] = std::move(server);
  }

  void TakeReport() {
    if (reports_.empty()) return;
    const size_t at = prng_.Below(reports_.size());
    PartitionsTaken taken = reports_[at];
    if (!prng_.Chance(1, 6)) reports_.erase(reports_.begin() + static_cast<std::ptrdiff_t>(at));
    if (canary_ == TableCanary::kAnyProcess) {
      for (const core::TaskState& one : state_.tasks) {
        if (one.task.rank == TaskRank(TaskKind::kPs, taken.from)) {
          taken.from_generation = one.task.generation.value();
        }
      }
    }
    if (auto moved = core::MoveBy(state_, taken)) {
      Record(*moved);
      Place(false);  // a server without partitions may end
    }
  }

  void Scale() {
    const auto servers = static_cast<uint32_t>(1 + prng_.Below(kServersMost));
    if (servers == state_.spec.tasks.servers) return;
    Record(core::TasksScaled{
        .workers = state_.spec.tasks.workers, .servers = servers, .reason = "asked"});
    Place(false);
  }

  // ---- servers ----

  SimTableServer* Living(uint32_t number) {
    const auto found = servers_.find(number);
    return found == servers_.end() || found->second->is_frozen ? nullptr : found->second.get();
  }

  void Lose(uint32_t number) { losses_ += servers_.erase(number); }

  void Hear(SimTableServer* server) {
    const RoutingNews news = core::NewsFor(state_);
    if (news.id == server->heard) return;
    std::string why;
    server->heard = news.id;
    if (!server->share.Learn(news, &why)) return Lose(server->server);
    server->next_file = std::max(server->next_file, server->snapshot + 1);
  }

  void AskForPartitions(SimTableServer* server) {
    const TableMove* const move = server->share.Wanted();
    if (move == nullptr) return;
    if (server->share.Taken() && !prng_.Chance(1, 8)) {
      reports_.push_back(*server->share.Taken());
      return;
    }
    SimTableServer* const source = Living(move->from);
    if (source == nullptr) return;
    auto images = source->share.Give(move->id, server->server, prng_.Below(3'000));
    if (!images) return;
    if (canary_ == TableCanary::kMoveWithoutSets) {
      for (std::string& image : *images) {
        const std::string whole = image;
        ps::PartitionImage bare = *ps::ReadImage(whole);
        bare.applied.clear();
        image = ps::WriteImage(bare);
      }
    }
    on_the_way_.push_back({.to = server->server,
                           .to_generation = server->generation,
                           .id = move->id,
                           .from_generation = source->generation,
                           .snapshot = source->next_file,
                           .images = *std::move(images)});
  }

  void DeliverImages() {
    if (on_the_way_.empty()) return;
    ImagesOnTheWay one = std::move(on_the_way_.front());
    on_the_way_.pop_front();
    SimTableServer* const server = Living(one.to);
    if (server == nullptr || server->generation != one.to_generation) return;
    server->snapshot = std::max(server->snapshot, one.snapshot);
    server->share.Stage(one.id, one.from_generation, std::move(one.images));
  }

  // The answer of the gate; the push is applied if it lets it pass.
  ps::PartitionShare::Gate PushTo(SimTableServer* server, const TableRouting& routing,
                                  uint64_t batch) {
    auto gate = server->share.GateOf(routing.version(), /*is_change=*/true);
    const bool is_frozen = gate == ps::PartitionShare::Gate::kWait && server->share.is_frozen() &&
                           routing.version() == server->share.news().routing.version();
    if (canary_ == TableCanary::kNoFreeze && is_frozen) gate = ps::PartitionShare::Gate::kServe;
    if (gate != ps::PartitionShare::Gate::kServe) return gate;
    std::vector<uint64_t> keys;
    std::vector<float> values;
    for (const auto& [key, count] : CountsOf(batch, batch + kUnit)) {
      if (routing.Of(PartOf(key)) != server->server) continue;
      keys.push_back(key);
      values.push_back(-count);
    }
    const ps::PushTag tag{.set = set_, .batch = {{batch, batch + kUnit}}};
    const ps::TableGradient gradient{.table = 0, .keys = keys, .values = values};
    std::string why;
    const ps::PushAnswer answer = server->holding.Push(tag, std::span(&gradient, 1), &why);
    if (answer == ps::PushAnswer::kApplied) ++pushes_;
    if (answer != ps::PushAnswer::kApplied && answer != ps::PushAnswer::kSkipped) wrong_ = why;
    return gate;
  }

  // ---- workers ----

  void Handle(const LeasePeer& from, const LeaseFrame& frame) {
    LeaseActions actions;
    book_.Handle(now_, from, frame, &actions);
    Tell(actions);
  }

  void Tell(const LeaseActions& actions) {
    for (const LeaseAnswer& answer : actions.answers) {
      for (SimWorker& worker : workers_) {
        if (worker.is_alive && worker.peer == answer.to) Answer(answer.frame, &worker);
      }
    }
  }

  void Answer(const LeaseFrame& frame, SimWorker* worker) {
    if (frame.op == LeaseOp::kRefused) wrong_ = frame.text;
    if (frame.op == LeaseOp::kComplete) {
      worker->is_complete = true;
      worker->has_asked = false;
    }
    if (frame.op == LeaseOp::kStale && frame.lease == worker->lease) worker->lease = 0;
    if (frame.op != LeaseOp::kGranted) return;
    worker->has_asked = false;
    worker->lease = frame.lease;
    worker->begin = frame.begin;
    worker->end = frame.end;
    worker->answered.clear();
  }

  void StartWorker(SimWorker* worker) {
    ++worker->incarnation;
    worker->peer = {.link = 1, .peer = next_peer_++};
    worker->is_alive = true;
    worker->has_asked = worker->is_complete = false;
    worker->lease = 0;
    worker->routing = TableRouting(FirstServers());
    Handle(worker->peer, {.op = LeaseOp::kOpen,
                          .text = EncodeOpen({.name = std::string(kSetName),
                                              .terms = "{}",
                                              .ordinals = kUnit * kBatches,
                                              .rank = worker->number,
                                              .world_size = workers_.size(),
                                              .incarnation = worker->incarnation,
                                              .lease_min = kUnit,
                                              .lease_max = 3 * kUnit,
                                              .lease_first = 2 * kUnit,
                                              .unit = kUnit})});
  }

  // As the environment of a worker names them, whatever has moved since.
  uint32_t FirstServers() const {
    return std::get<core::JobCreated>(journal_.front().fact).spec.tasks.servers;
  }

  void KillWorker(SimWorker* worker) {
    if (!worker->is_alive) return;
    worker->is_alive = false;
    LeaseActions actions;
    book_.PeerGone(now_, worker->peer, /*is_blamed=*/false, &actions);
    Tell(actions);
  }

  void Act(SimWorker* worker) {
    if (!worker->is_alive) return is_calm_ || prng_.Chance(1, 3) ? StartWorker(worker) : void();
    if (worker->lease == 0) {
      // Done batches may be free again: a worker looks at times.
      const bool looks = !worker->is_complete || prng_.Chance(1, 10);
      if (worker->has_asked || !looks) return;
      worker->is_complete = false;
      worker->has_asked = true;
      return Handle(worker->peer, {.op = LeaseOp::kTake, .number = ++worker->requests});
    }
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < worker->routing.end(); ++i) {
      if (worker->routing.CountOf(i) > 0 && !worker->answered.contains(i)) missing.push_back(i);
    }
    const bool is_early = canary_ == TableCanary::kAckEarly && !worker->answered.empty();
    if (missing.empty() || is_early) return Acknowledge(worker);
    const uint32_t number = missing[prng_.Below(missing.size())];
    SimTableServer* const server = Living(number);
    if (server == nullptr) {
      // It may be gone for good. The first server tells the routing.
      SimTableServer* const first = Living(0);
      if (first != nullptr) Learn(first->share.news().routing, worker);
      return;
    }
    if (!is_calm_ && prng_.Chance(1, 12)) {
      late_.push_back({number, server->generation, worker->routing, worker->begin});
      return;  // this one comes late, and the worker repeats it
    }
    const auto gate = PushTo(server, worker->routing, worker->begin);
    if (gate == ps::PartitionShare::Gate::kServe) worker->answered.insert(number);
    if (gate == ps::PartitionShare::Gate::kMoved) Learn(server->share.news().routing, worker);
  }

  static void Learn(const TableRouting& routing, SimWorker* worker) {
    if (routing.version() <= worker->routing.version()) return;
    worker->routing = routing;
    worker->answered.clear();
  }

  void Acknowledge(SimWorker* worker) {
    worker->begin += kUnit;
    worker->answered.clear();
    const uint64_t lease = worker->lease;
    const uint64_t end = worker->begin;
    if (worker->begin >= worker->end) worker->lease = 0;
    Handle(worker->peer,
           {.op = LeaseOp::kAck, .number = ++worker->acks, .lease = lease, .end = end});
  }

  void DeliverLate() {
    if (late_.empty()) return;
    const size_t at = prng_.Below(late_.size());
    const LatePush push = late_[at];
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(at));
    SimTableServer* const server = Living(push.server);
    if (server == nullptr || server->generation != push.generation) return;
    PushTo(server, push.routing, push.batch);
  }

  // ---- the schedule ----

  void Step() {
    const uint64_t choice = prng_.Below(100);
    const auto number = static_cast<uint32_t>(prng_.Below(kServersMost));
    SimTableServer* const server = Living(number);
    if (choice < 45) return Act(&workers_[prng_.Below(workers_.size())]);
    if (choice < 55) return server != nullptr ? Hear(server) : void();
    if (choice < 65) return server != nullptr ? AskForPartitions(server) : void();
    if (choice < 72) return DeliverImages();
    if (choice < 80) return TakeReport();
    if (choice < 83) return DeliverLate();
    if (choice < 86) {
      if (server != nullptr && server->share.own().any() && prng_.Chance(1, 2))
        server->Save(canary_, set_);
      return;
    }
    if (choice < 90) return Place(/*anew=*/true);
    if (choice < 92) {
      LeaseActions actions;
      book_.Tick(now_, &actions);
      return Tell(actions);
    }
    Fault(number);
  }

  void Fault(uint32_t number) {
    const auto found = servers_.find(number);
    if (is_calm_) {
      if (found != servers_.end()) found->second->is_frozen = false;
      return;
    }
    switch (prng_.Below(8)) {
      case 0: return Lose(number);
      case 1:
      case 2:
        if (found != servers_.end()) found->second->is_frozen = !found->second->is_frozen;
        return;
      case 3:
      case 4: return KillWorker(&workers_[prng_.Below(workers_.size())]);
      case 5: return RestartMaster();
      default: return Scale();
    }
  }

  bool IsOver() const {
    if (!is_calm_ || core::NewsFor(state_).move) return false;
    const bool is_done = std::all_of(workers_.begin(), workers_.end(), [](const SimWorker& one) {
      return one.is_alive && one.is_complete;
    });
    return is_done && servers_.size() == state_.spec.tasks.servers &&
           std::all_of(servers_.begin(), servers_.end(), [&](const auto& one) {
             return one.second->share.news().id == state_.moves_seq.value();
           });
  }

  void Judge() {
    for (uint32_t i = 0; i < ps::kPartitions && wrong_.empty(); ++i) {
      for (const auto& [number, server] : servers_) {
        if (server->share.own().test(i) == (state_.routing.Of(i) == number)) continue;
        wrong_ = Concat("partition ", i, " is not on its server alone");
      }
    }
    for (const auto& [key, count] : CountsOf(0, kUnit * kBatches)) {
      std::vector<float> row(1);
      servers_.at(state_.routing.Of(PartOf(key)))
          ->holding.Pull(0, std::span(&key, 1), /*is_training=*/false, row);
      if (row[0] == count || !wrong_.empty()) continue;
      wrong_ = Concat("key ", static_cast<int64_t>(key), " counts ", static_cast<int>(row[0]),
                      " and not ", static_cast<int>(count));
    }
  }

  Prng prng_;
  const TableCanary canary_;
  const uint64_t set_;
  Instant now_ = Instant() + Duration::Seconds(1);
  bool is_calm_ = false;
  std::string wrong_;
  uint64_t pushes_ = 0;
  uint64_t losses_ = 0;
  std::vector<core::Record> journal_;
  core::JobState state_;
  LeaseBook book_{"tables"};
  TableDisk disk_;
  std::map<uint32_t, std::unique_ptr<SimTableServer>> servers_;  // living
  std::vector<SimWorker> workers_;
  uint32_t next_peer_ = 1;
  std::vector<PartitionsTaken> reports_;
  std::deque<ImagesOnTheWay> on_the_way_;
  std::vector<LatePush> late_;
};

}  // namespace

TableOutcome RunTableWorld(uint64_t seed, TableCanary canary) {
  return TableWorld(seed, canary).Run();
}

}  // namespace paceline::sim
