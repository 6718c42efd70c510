#include "paceline/diagnose/testing/made_job.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/text.h"

namespace paceline::diagnose::testing {
namespace {

constexpr uint32_t kSteps = 3;
constexpr uint32_t kTensorCalls = 4;  // in a step
constexpr uint32_t kCallsAStep = kTensorCalls + 2;
constexpr Duration kStoodFor = Duration::Seconds(200);

struct Members {
  std::string name;
  std::vector<uint32_t> ranks;
};

std::string NameOf(std::string_view kind, const std::vector<uint32_t>& ranks) {
  std::string name(kind);
  const bool is_run = ranks.back() - ranks.front() + 1 == ranks.size();
  if (is_run) return Concat(name, " ", ranks.front(), "-", ranks.back());
  for (size_t i = 0; i < ranks.size(); ++i) Append(&name, i == 0 ? " " : ",", ranks[i]);
  return name;
}

// One run until no rank can go on.
class Run {
 public:
  Run(const MadeJob& job, Prng& random) : job_(job), random_(random) {
    size_ = job.tensor * job.data * job.stages;
    MakeGroups();
    place_.assign(size_, 0);
    entered_.assign(size_, 0);
    DrawHung();
    for (uint32_t rank = 0; rank < size_; ++rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const uint32_t rank = ready_.back();
      ready_.pop_back();
      Enter(rank);
    }
  }

  MadeFacts Report() const {
    MadeFacts made;
    made.facts.world_size = size_;
    for (uint32_t rank = 0; rank < size_; ++rank) {
      if (random_.Below(1'000'000) < static_cast<uint64_t>(job_.lost_share * 1e6)) continue;
      const auto hung = hangs_at_.find(rank);
      const bool hangs = hung != hangs_at_.end() && hung->second == place_[rank];
      if (hangs) made.culprits.insert(rank);
      made.facts.ranks.push_back(FactsOf(rank, hangs));
    }
    return made;
  }

 private:
  void MakeGroups() {
    Members world{.name = Concat("w 0-", size_ - 1), .ranks = {}};
    for (uint32_t rank = 0; rank < size_; ++rank) world.ranks.push_back(rank);
    for (uint32_t first = 0; first < size_; first += job_.tensor) {
      Members group;
      for (uint32_t i = 0; i < job_.tensor; ++i) group.ranks.push_back(first + i);
      Add("t", std::move(group));
    }
    for (uint32_t stage = 0; stage < job_.stages; ++stage) {
      for (uint32_t i = 0; i < job_.tensor; ++i) {
        Members group;
        for (uint32_t replica = 0; replica < job_.data; ++replica) {
          group.ranks.push_back((stage * job_.data + replica) * job_.tensor + i);
        }
        Add("d", std::move(group));
      }
    }
    data_groups_from_ = size_ / job_.tensor;
    groups_.push_back(std::move(world));
  }
  void Add(std::string_view kind, Members group) {
    group.name = NameOf(kind, group.ranks);
    groups_.push_back(std::move(group));
  }

  // The group of the call at that place of a rank's program.
  size_t GroupAt(uint32_t rank, uint32_t place) const {
    const uint32_t call = place % kCallsAStep;
    if (call < kTensorCalls) return rank / job_.tensor;
    if (call > kTensorCalls) return groups_.size() - 1;
    const uint32_t stage = rank / (job_.tensor * job_.data);
    return data_groups_from_ + stage * job_.tensor + rank % job_.tensor;
  }
  // Its sequence number in that group, from 1.
  static uint64_t SequenceAt(uint32_t place) {
    const uint32_t step = place / kCallsAStep;
    const uint32_t call = place % kCallsAStep;
    return call < kTensorCalls ? uint64_t{step} * kTensorCalls + call + 1 : step + 1;
  }

  void DrawHung() {
    const uint32_t hung = job_.fault == MadeFault::kOtherCall ? 1 : job_.hung;
    while (hangs_at_.size() < hung) {
      const auto rank = static_cast<uint32_t>(random_.Below(size_));
      auto place = static_cast<uint32_t>(kCallsAStep + random_.Below(kCallsAStep));
      // Two ranks that call differently do not show who is wrong.
      const bool is_told = job_.fault != MadeFault::kOtherCall;
      if (!is_told && groups_[GroupAt(rank, place)].ranks.size() < 3) {
        place = 2 * kCallsAStep - 1;  // the world's
      }
      // A group of one never waits.
      if (groups_[GroupAt(rank, place)].ranks.size() < 2) place = 2 * kCallsAStep - 1;
      hangs_at_.emplace(rank, place);
    }
  }

  void Enter(uint32_t rank) {
    const uint32_t place = place_[rank];
    if (place == kSteps * kCallsAStep) return;
    const auto hung = hangs_at_.find(rank);
    if (hung != hangs_at_.end() && hung->second == place) return;
    entered_[rank] = place + 1;
    const size_t group = GroupAt(rank, place);
    const std::vector<uint32_t>& ranks = groups_[group].ranks;
    if (++come_[{group, SequenceAt(place)}] < ranks.size()) return;
    for (const uint32_t member : ranks) {
      place_[member] = place + 1;
      ready_.push_back(member);
    }
  }

  RankFacts FactsOf(uint32_t rank, bool hangs) const {
    RankFacts made;
    made.node = Concat("node", rank / 8);
    RankEvidence& evidence = made.evidence;
    evidence.rank = Rank(rank);
    evidence.has_ring = true;
    evidence.phase = RankPhase::kForward;
    evidence.quiet_for = evidence.in_phase = kStoodFor;
    evidence.step_p99 = Duration::Milliseconds(100);
    evidence.state = 'S';
    evidence.watched = Duration::Milliseconds(500);
    const bool calls_other = hangs && job_.fault == MadeFault::kOtherCall;
    const uint32_t end = entered_[rank] + (calls_other ? 1 : 0);
    for (uint32_t place = 0; place < end; ++place) {
      const bool is_complete = place < place_[rank];
      // The agent reports the newest few of each group.
      if (place + 2 * kCallsAStep < end) continue;
      evidence.collectives.push_back(
          {.group = groups_[GroupAt(rank, place)].name,
           .sequence = SequenceAt(place),
           .operation = calls_other && place + 1 == end ? "barrier" : "all_reduce",
           .dtype = "float32",
           .bytes = 4096,
           .site = "train.py:44",
           .age = kStoodFor,
           .is_complete = is_complete});
    }
    if (!hangs) return made;
    if (job_.fault == MadeFault::kStopped) evidence.state = 'T';
    if (job_.fault == MadeFault::kBusy) evidence.state = 'R';
    return made;
  }

  const MadeJob& job_;
  Prng& random_;
  uint32_t size_ = 0;
  std::vector<Members> groups_;  // tensor, data, world
  size_t data_groups_from_ = 0;
  std::map<uint32_t, uint32_t> hangs_at_;  // rank → the place of the call that it never enters
  std::vector<uint32_t> place_;            // by rank: the call that it is before or in
  std::vector<uint32_t> entered_;          // by rank: calls that it has entered
  std::map<std::pair<size_t, uint64_t>, size_t> come_;  // (group, sequence) → members
  std::vector<uint32_t> ready_;
};

}  // namespace

MadeJob DrawMadeJob(Prng& random, uint32_t ranks_max) {
  MadeJob job;
  do {
    job.tensor = 1U << random.Below(4);
    job.stages = 1U << random.Below(4);
    job.data = static_cast<uint32_t>(1 + random.Below(128));
  } while (job.tensor * job.stages * job.data > ranks_max ||
           job.tensor * job.stages * job.data < 4);
  job.fault = static_cast<MadeFault>(random.Below(4));
  job.hung = static_cast<uint32_t>(1 + random.Below(2));
  if (random.Below(2) == 1) job.lost_share = 0.05;
  return job;
}

MadeFacts RunMadeJob(const MadeJob& job, Prng& random) { return Run(job, random).Report(); }

}  // namespace paceline::diagnose::testing
