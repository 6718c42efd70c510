// Several jobs on one directory, in simulated time. Storage is slow or away; processes freeze, are
// killed and restart.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/core/checkpoint/claim_machine.h"

namespace paceline::core {
namespace {

constexpr Duration kTick = Duration::Milliseconds(100);
constexpr int64_t kTicks = 3000;  // five minutes
constexpr int64_t kTicksCalm = 1000;
// How long a writer may be blocked without losing its claim: the watch of 30 s, less a renewal in
// progress.
constexpr int64_t kLackMaxTicks = 150;

struct Contender {
  explicit Contender(uint64_t number, ClaimTimes times)
      : self{.job_id = "job" + std::to_string(number),
             .host = "h" + std::to_string(number % 2),
             .boot_id = "boot" + std::to_string(number % 2),
             .pid_space = 1,
             .pid = static_cast<int64_t>(number) + 1,
             .start_ticks = 1,
             .since = "",
             .beat = 0},
        machine(std::in_place, self, times) {}

  struct Call {
    int64_t at = 0;  // when storage executes it
    ClaimAction what;
  };
  DirectoryClaim self;
  std::optional<ClaimMachine> machine;
  std::deque<Call> calls;
  std::deque<ClaimEvent> events;
  int64_t frozen_until = 0;
  int64_t lacks = 0;  // consecutive ticks frozen or without storage
  int64_t lacked_max = 0;
};

class Swarm {
 public:
  Swarm(uint64_t seed, ClaimTimes times) : prng_(seed), times_(times) {
    for (uint64_t i = 0; i < 3; ++i) jobs_.emplace_back(i, times);
  }

  // Returns the first error, or "".
  std::string Run() {
    for (int64_t tick = 0; tick < kTicks + kTicksCalm; ++tick) {
      tick_ = tick;
      const bool is_calm = tick >= kTicks;
      if (!is_calm) Harm();
      if (is_calm) away_until_ = 0;
      for (Contender& job : jobs_) {
        Store(&job);
        Act(&job, is_calm);
      }
      if (!wrong_.empty()) return wrong_;
    }
    return AtTheEnd();
  }

 private:
  void Harm() {
    if (prng_.Chance(1, 600)) away_until_ = tick_ + 1 + static_cast<int64_t>(prng_.Below(500));
    for (Contender& job : jobs_) {
      if (prng_.Chance(1, 400)) {
        job.frozen_until = tick_ + 1 + static_cast<int64_t>(prng_.Below(600));
      }
      if (prng_.Chance(1, 1200)) Kill(&job);
    }
  }

  // Restarts it as another process of the same job.
  void Kill(Contender* job) {
    const int64_t pid = job->self.pid + 3;
    job->self.pid = pid;
    job->machine.emplace(job->self, times_);
    job->calls.clear();
    job->events.clear();
    job->frozen_until = job->lacks = job->lacked_max = 0;
  }

  WriterLife LifeOf(const Contender& viewer, const DirectoryClaim& claim) const {
    if (claim.boot_id != viewer.self.boot_id) return WriterLife::kNotSeen;
    for (const Contender& job : jobs_) {
      if (job.self.pid == claim.pid) return WriterLife::kLives;
    }
    return WriterLife::kGone;
  }

  void Store(Contender* job) {
    while (!job->calls.empty() && job->calls.front().at <= tick_) {
      const ClaimAction what = std::move(job->calls.front().what);
      job->calls.pop_front();
      const std::string problem = tick_ < away_until_ ? "away" : "";
      if (std::holds_alternative<LookAtClaim>(what)) {
        ClaimLooked looked{.claim = {}, .problem = problem};
        if (problem.empty()) looked.claim = there_;
        if (looked.claim.has_value()) looked.life = LifeOf(*job, *looked.claim);
        job->events.push_back(looked);
      } else if (const auto* write = std::get_if<WriteClaim>(&what)) {
        const bool is_passed = problem.empty() && there_ != write->over;
        if (problem.empty() && !is_passed) there_ = write->claim;
        job->events.push_back(ClaimWritten{is_passed, problem});
      }
    }
  }

  void Act(Contender* job, bool is_calm) {
    const bool is_frozen = tick_ < job->frozen_until && !is_calm;
    job->lacks = is_frozen || tick_ < away_until_ ? job->lacks + 1 : 0;
    job->lacked_max = std::max(job->lacked_max, job->lacks);
    if (is_frozen) return;
    const Instant now = Instant::FromNanoseconds(1) + kTick * tick_;
    const bool wants = tick_ % 50 == job->self.pid % 50;  // ranks come again and again
    if (wants) job->events.push_back(ClaimWanted{});
    if (job->machine->NextDeadline() <= now) job->events.push_back(ClaimTimePassed{});
    for (const ClaimEvent& event : std::exchange(job->events, {})) {
      for (const ClaimAction& action : job->machine->Step(now, event)) {
        const auto took = static_cast<int64_t>(prng_.Below(20));
        const int64_t before = job->calls.empty() ? tick_ : job->calls.back().at;
        job->calls.push_back({std::max(before, tick_ + took), action});
      }
    }
    const bool had = there_.has_value() && there_->pid == job->self.pid;
    if (had) had_it_.insert_or_assign(job->self.pid, tick_);
    Check(*job);
  }

  // A living writer that can reach storage must keep its directory.
  void Check(const Contender& job) {
    if (!there_.has_value() || there_->job_id == job.self.job_id) return;
    const auto had = had_it_.find(job.self.pid);
    if (had == had_it_.end() || job.lacked_max > kLackMaxTicks) return;
    wrong_ = job.self.job_id + " lost its claim to " + there_->job_id;
  }

  // At the end exactly one job that wants the directory has it and renews its claim.
  std::string AtTheEnd() const {
    if (!there_.has_value()) return "nobody has the directory";
    for (const Contender& job : jobs_) {
      if (job.self.pid != there_->pid) continue;
      const bool renews = there_->beat > 0 && job.machine->answer() == ClaimMachine::Answer::kYes;
      return renews ? "" : "who has the directory does not know it";
    }
    return "the directory belongs to a process that is gone";
  }

  Prng prng_;
  const ClaimTimes times_;
  std::vector<Contender> jobs_;
  std::optional<DirectoryClaim> there_;
  std::map<int64_t, int64_t> had_it_;  // by pid
  int64_t away_until_ = 0;
  int64_t tick_ = 0;
  std::string wrong_;
};

TEST(ClaimSwarmTest, ALivingWriterKeepsItsDirectoryAndADeadOneDoesNot) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    ASSERT_EQ(Swarm(seed, {}).Run(), "") << "seed " << seed;
  }
}

// With too short a watch, the check must fail.
TEST(ClaimSwarmTest, ACanaryIsFound) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    found += Swarm(seed, {.watch_for = Duration::Seconds(4)}).Run().empty() ? 0 : 1;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace paceline::core
