#include "paceline/sim/pool/pool_world.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "paceline/base/prng.h"
#include "paceline/sim/pool/draw.h"

namespace paceline::sim {
namespace {

constexpr double kTick = 10;                 // seconds
constexpr double kPodStart = 60;             // until a new node can train
constexpr double kNoise = 0.02;              // of a measured step time, its standard deviation
constexpr double kEndMost = 90 * 24 * 3600;  // a trace that is not over by then never is

enum class Stage { kQueued, kStarting, kTraining, kEnded };

struct Live {
  const PoolJob* job = nullptr;
  PoolAsk ask;
  PoolGrant has;
  Stage stage = Stage::kQueued;
  Prng prng{0};
  double ready_at = 0;    // while it starts
  double started_at = 0;  // the first time
  double trains_since = 0;
  double done = 0;        // steps of the job
  double of_process = 0;  // steps since the last restart
  double saved = 0;       // steps in storage
  double saves_at = 0;
  double looks_at = 0;
  double seen_steps = 0;       // since the last look
  double seen_memory = 0;      // the largest since the last look
  double peak = 0;             // of all
  double node_fault_in = 0;    // node-seconds
  double master_fault_in = 0;  // seconds
  uint32_t kills = 0;
};

class PoolWorld {
 public:
  PoolWorld(const PoolTrace& trace, PoolPolicy& policy)
      : trace_(trace), policy_(policy), conduct_(policy.Conduct()), free_(trace.pool) {}

  PoolOutcome Run();

 private:
  void Arrive();
  void StartQueued();
  void Train(Live& live);
  bool MeetsFault(Live& live);
  void MeetsKill(Live& live, double use);
  void Look(Live& live);
  PoolSight SightOf(const Live& live) const;
  void Change(Live& live, const PoolGrant& wanted);
  void Restart(Live& live, double seconds, bool from_storage);
  void End(Live& live, uint64_t PoolFailures::*failure);
  uint32_t RoomFor(const PoolJob& job, double memory) const;
  void Take(const Live& live, double sign);

  const PoolTrace& trace_;
  PoolPolicy& policy_;
  const PoolConduct conduct_;
  Pool free_;
  double now_ = 0;
  size_t arrived_ = 0;
  std::vector<Live> live_;  // in order of arrival
  PoolOutcome outcome_;
};

// Nodes of this job that still fit.
uint32_t PoolWorld::RoomFor(const PoolJob& job, double memory) const {
  const double by_cores = std::floor(free_.cores / job.cores + 1e-9);
  const double by_memory = std::floor(free_.memory / memory + 1e-9);
  return static_cast<uint32_t>(std::max(0.0, std::min(by_cores, by_memory)));
}

void PoolWorld::Take(const Live& live, double sign) {
  free_.cores -= sign * live.has.nodes * live.job->cores;
  free_.memory -= sign * live.has.nodes * live.has.memory;
}

void PoolWorld::Arrive() {
  for (; arrived_ < trace_.jobs.size() && trace_.jobs[arrived_].arrives <= now_; ++arrived_) {
    const PoolJob& job = trace_.jobs[arrived_];
    Live live;
    live.job = &job;
    live.prng = Prng(job.seed);
    live.ask = {.job = static_cast<uint32_t>(arrived_),
                .script = job.script,
                .nodes = job.nodes,
                .memory = job.asked};
    live.node_fault_in = DrawWait(live.prng, trace_.faults.node_hours * 3600);
    live.master_fault_in = DrawWait(live.prng, trace_.faults.node_hours * 3600);
    live_.push_back(live);
  }
}

// In order of arrival. A job that does not fit lets smaller ones pass, as Kubernetes does.
void PoolWorld::StartQueued() {
  for (Live& live : live_) {
    if (live.stage != Stage::kQueued) continue;
    uint32_t least = 1;
    PoolGrant grant = policy_.First(live.ask, &least);
    const uint32_t room = RoomFor(*live.job, grant.memory);
    if (room < least) continue;
    grant.nodes = std::min(grant.nodes, room);
    live.has = grant;
    Take(live, 1);
    live.stage = Stage::kStarting;
    live.started_at = now_;
    live.ready_at = now_ + kPodStart + live.job->restart;
  }
}

void PoolWorld::Restart(Live& live, double seconds, bool from_storage) {
  if (from_storage) live.done = live.saved;
  live.of_process = 0;
  live.stage = Stage::kStarting;
  live.ready_at = now_ + seconds;
}

void PoolWorld::End(Live& live, uint64_t PoolFailures::*failure) {
  Take(live, -1);
  live.stage = Stage::kEnded;
  policy_.Ended(live.ask, live.peak);
  if (failure != nullptr) {
    ++(outcome_.failures.*failure);
    return;
  }
  ++outcome_.completed;
  outcome_.job_seconds += now_ - live.job->arrives;
  outcome_.wait_seconds += live.started_at - live.job->arrives;
}

// True if the job did not go on.
bool PoolWorld::MeetsFault(Live& live) {
  live.master_fault_in -= kTick;
  if (live.master_fault_in <= 0) {
    live.master_fault_in = DrawWait(live.prng, trace_.faults.node_hours * 3600);
    if (conduct_.dies_with_master) {
      End(live, &PoolFailures::master);
      return true;
    }
  }
  live.node_fault_in -= kTick * live.has.nodes;
  if (live.node_fault_in > 0) return false;
  live.node_fault_in = DrawWait(live.prng, trace_.faults.node_hours * 3600);
  const bool is_fatal = DrawPart(live.prng) < trace_.faults.fatal;
  ++outcome_.node_faults;
  if (conduct_.ends_by_fault && is_fatal) {
    End(live, &PoolFailures::node);
    return true;
  }
  const double pod = conduct_.repeats_steps ? kPodStart : live.job->restart;
  Restart(live, pod + live.job->restart, conduct_.repeats_steps);
  return true;
}

void PoolWorld::MeetsKill(Live& live, double use) {
  ++outcome_.kernel_kills;
  ++live.kills;
  live.peak = std::max(live.peak, use);
  PoolSight sight = SightOf(live);
  sight.memory = std::max(sight.memory, live.has.memory);
  const auto granted = live.kills > conduct_.kills_most ? std::nullopt : policy_.AfterKill(sight);
  if (!granted.has_value()) return End(live, &PoolFailures::memory);
  ++outcome_.memory_changes;
  // The same nodes with more memory, or fewer nodes if the pool has no more.
  Take(live, -1);
  const uint32_t room = RoomFor(*live.job, granted->memory);
  live.has.memory = granted->memory;
  live.has.nodes = std::clamp(room, 1U, granted->nodes);
  Take(live, 1);
  Restart(live, kPodStart + live.job->restart, true);
}

void PoolWorld::Train(Live& live) {
  const PoolJob& job = *live.job;
  const double step = job.curve.At(live.has.nodes);
  const double steps = std::min(kTick / step, job.steps - live.done);
  live.done += steps;
  live.of_process += steps;
  live.seen_steps += steps;
  // Work keeps the cores busy; the constant and the exchange of a step do not.
  outcome_.cpu_used += steps * job.curve.work * job.cores * job.busy;
  const double use = MemoryUse(job, live.done, live.of_process);
  if (use > live.has.memory) return MeetsKill(live, use);
  outcome_.memory_used += use * live.has.nodes * kTick;
  live.seen_memory = std::max(live.seen_memory, use);
  live.peak = std::max(live.peak, use);
  if (now_ >= live.saves_at) {
    live.saved = live.done;
    live.saves_at = now_ + job.save_every;
  }
  if (live.done >= job.steps) return End(live, nullptr);
  if (job.has_bug && live.done >= job.steps / 2) return End(live, &PoolFailures::script);
  if (MeetsFault(live)) return;
  if (now_ >= live.looks_at) Look(live);
}

PoolSight PoolWorld::SightOf(const Live& live) const {
  const double step = live.job->curve.At(live.has.nodes);
  return {.ask = live.ask,
          .has = live.has,
          .now = now_,
          .trains_since = live.trains_since,
          .step_seconds = 0,
          .memory = live.seen_memory,
          .memory_now = MemoryUse(*live.job, live.done, live.of_process),
          .seconds_left = (live.job->steps - live.done) * step,
          .next_save = std::max(0.0, live.saves_at - now_),
          .restart = live.job->restart,
          .free_nodes = RoomFor(*live.job, live.has.memory)};
}

void PoolWorld::Look(Live& live) {
  PoolSight sight = SightOf(live);
  if (live.seen_steps > 0) {
    sight.step_seconds = live.job->curve.At(live.has.nodes) * (1 + kNoise * DrawNormal(live.prng));
  }
  live.seen_steps = 0;
  live.seen_memory = 0;
  live.looks_at = now_ + kPoolDecisionSeconds;
  const PoolGrant wanted = policy_.Look(sight);
  if (wanted != live.has) Change(live, wanted);
}

// The job gets what it should have, as far as the pool has it.
void PoolWorld::Change(Live& live, const PoolGrant& wanted) {
  const PoolGrant before = live.has;
  Take(live, -1);
  const uint32_t room = RoomFor(*live.job, wanted.memory);
  const bool has_room = room > 0;
  if (has_room) live.has = {.nodes = std::min(wanted.nodes, room), .memory = wanted.memory};
  Take(live, 1);
  const bool is_resized = live.has.nodes != before.nodes;
  const bool has_other_memory = live.has.memory != before.memory;
  outcome_.resizes += is_resized ? 1 : 0;
  outcome_.memory_changes += has_other_memory ? 1 : 0;
  if (has_other_memory) {
    Restart(live, kPodStart + live.job->restart, false);
  } else if (is_resized && conduct_.stops_to_resize) {
    Restart(live, live.job->restart, false);
  }
}

PoolOutcome PoolWorld::Run() {
  outcome_.jobs = trace_.jobs.size();
  for (; now_ < kEndMost; now_ += kTick) {
    Arrive();
    StartQueued();
    bool is_busy = arrived_ < trace_.jobs.size();
    bool has_run = false;
    for (Live& live : live_) {
      if (live.stage == Stage::kEnded) continue;
      is_busy = true;
      if (live.stage == Stage::kQueued) continue;
      has_run = true;
      outcome_.cpu_granted += kTick * live.has.nodes * live.job->cores;
      outcome_.memory_granted += kTick * live.has.nodes * live.has.memory;
      if (live.stage == Stage::kStarting && now_ >= live.ready_at) {
        live.stage = Stage::kTraining;
        live.trains_since = now_;
        live.saves_at = now_ + live.job->save_every;
        live.looks_at = now_ + kPoolDecisionSeconds;
        live.seen_steps = 0;
        live.seen_memory = 0;
      }
      if (live.stage == Stage::kTraining) Train(live);
    }
    if (!is_busy) break;
    if (!has_run && arrived_ == trace_.jobs.size()) break;  // nobody ever gives room to the rest
  }
  outcome_.end = now_;
  for (const Live& live : live_) outcome_.failures.never += live.stage != Stage::kEnded ? 1 : 0;
  return outcome_;
}

}  // namespace

PoolOutcome RunPool(const PoolTrace& trace, PoolPolicy& policy) {
  return PoolWorld(trace, policy).Run();
}

}  // namespace paceline::sim
