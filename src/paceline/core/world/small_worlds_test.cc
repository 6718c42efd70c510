// All orders of six events in a world of three nodes.
//
// The job is real. Its agents carry out each order at once. After every event the durable state
// must equal the fold of its records, and no node may hold a rank of another world or of another
// node. Survivors must keep their seats, and generations must rise. After the last event all faults
// are healed, and then the job must train or be over.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/core/job.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

constexpr int kOrderLength = 6;
constexpr uint32_t kSmallNodes = 3;

// The journal as a list that branches share.
struct Entry {
  std::shared_ptr<const Entry> before;
  Record record;
};

struct SmallAgent {
  bool up = false;
  bool cut = false;  // it and the master do not receive each other's messages
  uint64_t incarnation = 0;
  ConnectionId connection;
  Generation carried_out;
  uint32_t port = 0;
  std::vector<RankReport> ranks;
  bool heard() const { return up && !cut; }
};

class SmallWorld {
 public:
  explicit SmallWorld(const JobSpec& spec) {
    Feed(JobSubmitted{spec});
    Feed(MasterStarted{++masters_});
    for (uint32_t i = 0; i < kSmallNodes; ++i) Start(i);
    Rest();
  }

  bool is_over() const { return job_.state().phase == Phase::kFinished; }
  const std::string& broken() const { return broken_; }

  // 1-3: that node dies, or joins; x: node 2 is cut off until it is lost, or healed; m: the master
  // dies and restarts; p: steps and a checkpoint; k: rank 0 is killed; r, l: the first or the last
  // rank raises.
  void Apply(char letter) {
    switch (letter) {
      case '1':
      case '2':
      case '3': Toggle(static_cast<uint32_t>(letter - '1')); break;
      case 'x': ToggleCut(1); break;
      case 'm': RestartMaster(); break;
      case 'p': Progress(); break;
      case 'k': Fail(0, {.kind = ExitCause::Kind::kSignaled, .code = 9}); break;
      case 'r': Fail(0, Raised()); break;
      case 'l': Fail(-1, Raised()); break;
      default: break;
    }
    Rest();
  }

  // All nodes are there and connected, so whatever blocks the job now would block it for ever.
  void Heal() {
    if (is_over()) return;
    for (uint32_t i = 0; i < kSmallNodes; ++i) {
      if (agents_[i].up && agents_[i].cut) ToggleCut(i);
      if (!agents_[i].up) Start(i);
      Rest();
    }
    for (int beat = 0; beat < 8 && job_.state().phase != Phase::kRunning; ++beat) Beat();
    if (is_over() || job_.state().phase == Phase::kRunning) return;
    Break("all is well, and the job " + job_.Pending());
  }

 private:
  static ExitCause Raised() {
    ExitCause cause{.kind = ExitCause::Kind::kExited, .code = 1};
    cause.fingerprint = "boom";
    return cause;
  }

  void Break(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }

  void Feed(const Event& event) {
    Actions actions = job_.Step(now_, event);
    for (Record& record : actions.records) {
      CheckRecord(record);
      core::Apply(record, &folded_);
      journal_ = std::make_shared<const Entry>(Entry{journal_, std::move(record)});
    }
    if (!actions.records.empty() && !(folded_ == job_.state())) Break("journal_folds");
    for (Effect& effect : actions.effects) {
      if (const auto* admit = std::get_if<AdmitNode>(&effect)) Admit(*admit);
      if (auto* assign = std::get_if<AssignNode>(&effect)) told_.push_back(std::move(*assign));
      if (std::holds_alternative<RefuseNode>(effect)) Break("an agent was refused");
    }
  }

  // folded_ is still the state before the record.
  void CheckRecord(const Record& record) {
    const auto* formed = std::get_if<WorldFormed>(&record.fact);
    if (formed == nullptr) return;
    const World& last = folded_.last_world;
    const World& next = formed->world;
    if (next.generation <= last.generation) Break("one_world: a generation is used again");
    if (next.seats.size() == 1 && last.seats.size() == 1 &&
        next.seats[0].node == last.seats[0].node) {
      return;
    }
    if (next.generation <= folded_.generation) Break("one_world: a granted number is used");
    for (size_t i = 0; i < last.seats.size() && i < next.seats.size(); ++i) {
      const int seat = next.SeatOf(last.seats[i].node);
      if (seat >= 0 && seat != static_cast<int>(i)) Break("a survivor lost its seat");
    }
  }

  void Admit(const AdmitNode& admit) {
    for (uint32_t i = 0; i < kSmallNodes; ++i) {
      if (agents_[i].connection == admit.connection) agent_of_[admit.node] = i;
    }
  }

  NodeId IdOf(uint32_t agent) const {
    for (const auto& [id, index] : agent_of_) {
      if (index == agent) return id;
    }
    return {};
  }

  void Start(uint32_t i) {
    agents_[i].up = true;
    agents_[i].cut = false;
    agents_[i].incarnation = ++incarnations_;
    agents_[i].ranks.clear();
    agents_[i].carried_out = Generation();
    agents_[i].port = ++ports_;
    Register(i);
  }

  void Register(uint32_t i) {
    SmallAgent& agent = agents_[i];
    agent.connection = ConnectionId(++connections_);
    NodeReport report = TestReport("n" + std::to_string(i + 1));
    report.agent_incarnation = agent.incarnation;
    report.agent_pid = static_cast<int32_t>(agent.incarnation);
    report.store_port = agent.port;
    report.generation = agent.carried_out;
    report.ranks = agent.ranks;
    Feed(NodeRegistered{agent.connection, report});
  }

  void Toggle(uint32_t i) {
    SmallAgent& agent = agents_[i];
    if (!agent.up) {
      Start(i);
      return;
    }
    agent.up = false;
    agent.ranks.clear();
    Feed(NodeDisconnected{IdOf(i), agent.connection});
    Feed(NodeGone{"n" + std::to_string(i + 1), "", static_cast<int32_t>(agent.incarnation)});
  }

  void ToggleCut(uint32_t i) {
    SmallAgent& agent = agents_[i];
    if (!agent.up) return;
    agent.cut = !agent.cut;
    if (!agent.cut) {
      Feed(NodeDisconnected{IdOf(i), agent.connection});
      Register(i);
      return;
    }
    for (int beat = 0; beat < 5; ++beat) Beat();
  }

  void RestartMaster() {
    std::vector<const Record*> records;
    for (const Entry* entry = journal_.get(); entry != nullptr; entry = entry->before.get()) {
      records.push_back(&entry->record);
    }
    job_ = Job();
    told_.clear();
    std::reverse(records.begin(), records.end());
    for (const Record* record : records) job_.Restore(*record);
    Feed(MasterStarted{++masters_});
    for (uint32_t i = 0; i < kSmallNodes; ++i) {
      if (agents_[i].heard()) Register(i);
    }
  }

  void Progress() {
    ++step_;
    for (uint32_t i = 0; i < kSmallNodes; ++i) {
      SmallAgent& agent = agents_[i];
      if (!agent.heard() || agent.ranks.empty()) continue;
      for (RankReport& rank : agent.ranks) rank.step = rank.saved_step = step_;
      Report(i);
    }
  }

  // The rank on the first or last seat fails, if its node is connected.
  void Fail(int seat, const ExitCause& cause) {
    const JobState& state = job_.state();
    if (!state.world) return;
    const NodeId node = seat < 0 ? state.world->seats.back().node : state.world->seats.front().node;
    SmallAgent& agent = agents_[agent_of_.at(node)];
    if (!agent.heard() || agent.ranks.empty()) return;
    RankReport rank = agent.ranks.front();
    agent.ranks.clear();
    rank.state = RankReport::State::kExited;
    rank.exit = cause;
    Feed(RankExited{node, agent.connection, rank});
  }

  void Report(uint32_t i) {
    const SmallAgent& agent = agents_[i];
    Feed(NodeReported{IdOf(i), agent.connection, agent.carried_out, agent.port, Duration(),
                      agent.ranks});
  }

  void Rest() {
    Obey();
    Beat();
    CheckRanks();
  }

  void Beat() {
    now_ += Duration::Seconds(1);
    NodesHeard heard;
    for (const auto& [id, i] : agent_of_) {
      if (agents_[i].heard()) heard.nodes.push_back(id);
    }
    Feed(heard);
    Feed(TimePassed{});
    Obey();
  }

  void Obey() {
    int rounds = 0;
    while (!told_.empty()) {
      if (++rounds > 200) return Break("orders without end");
      const AssignNode order = std::move(told_.front());
      told_.pop_front();
      const auto found = agent_of_.find(order.node);
      if (found == agent_of_.end() || !agents_[found->second].heard()) continue;
      Obey(found->second, order.assignment);
    }
  }

  void Obey(uint32_t i, const Assignment& order) {
    SmallAgent& agent = agents_[i];
    if (order.generation < agent.carried_out) return Break("an order of the past");
    const bool runs = order.kind == Assignment::Kind::kRun;
    if (runs && order.generation == agent.carried_out) return;
    std::vector<RankReport> ended = std::exchange(agent.ranks, {});
    agent.carried_out = order.generation;
    for (RankReport& rank : ended) {
      rank.state = RankReport::State::kExited;
      rank.exit.kind = ExitCause::Kind::kSignaled;
      rank.exit.code = 9;
      rank.exit.asked = true;
    }
    if (runs) {
      if (order.first_rank == 0) agent.port = ++ports_;
      for (uint32_t local = 0; local < order.rank_count; ++local) {
        RankReport rank;
        rank.generation = order.generation;
        rank.rank = Rank(order.first_rank + local);
        rank.local_rank = local;
        rank.pid = ++pids_;
        rank.state = RankReport::State::kStepping;
        agent.ranks.push_back(rank);
      }
      ended = agent.ranks;
    }
    Feed(NodeReported{IdOf(i), agent.connection, agent.carried_out, agent.port, Duration(), ended});
  }

  void CheckRanks() {
    std::set<std::pair<Generation, Rank>> held;
    const JobState& state = job_.state();
    for (const auto& [id, i] : agent_of_) {
      for (const RankReport& rank : agents_[i].ranks) {
        if (!held.insert({rank.generation, rank.rank}).second)
          Break("one_world: a rank lives twice");
        if (agents_[i].cut) continue;
        const int seat = state.world ? state.world->SeatOf(id) : -1;
        const bool right =
            seat >= 0 && rank.generation == state.world->generation &&
            rank.rank.value() == state.world->seats[static_cast<size_t>(seat)].first_rank;
        if (!right) Break("one_world: a rank of no world lives");
      }
    }
  }

  Job job_;
  JobState folded_;
  std::shared_ptr<const Entry> journal_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
  SmallAgent agents_[kSmallNodes];
  std::map<NodeId, uint32_t> agent_of_;
  std::deque<AssignNode> told_;
  uint64_t masters_ = 0;
  uint64_t incarnations_ = 0;
  uint64_t connections_ = 0;
  uint32_t ports_ = 20'000;
  int32_t pids_ = 100;
  int64_t step_ = 0;
  std::string broken_;
};

// Tries all orders; returns their number. Stops at the first violation.
size_t Walk(const SmallWorld& world, std::string_view letters, const std::string& order) {
  if (order.size() == kOrderLength || world.is_over()) {
    SmallWorld healed = world;
    healed.Heal();
    EXPECT_EQ(healed.broken(), "") << "after the events " << order;
    return 1;
  }
  size_t count = 0;
  for (const char letter : letters) {
    SmallWorld next = world;
    next.Apply(letter);
    EXPECT_EQ(next.broken(), "") << "after the events " << order << letter;
    if (::testing::Test::HasFailure()) return count;
    count += Walk(next, letters, order + letter);
    if (::testing::Test::HasFailure()) return count;
  }
  return count;
}

// Seconds are beats here, so delays end at once or after one beat.
JobSpec Spec(uint32_t nodes_min, uint32_t nodes_max) {
  JobSpec spec;
  spec.job_id = "small";
  spec.nodes_min = nodes_min;
  spec.nodes_max = nodes_max;
  spec.spares = kSmallNodes - nodes_max;
  spec.grow = GrowPolicy::kNow;
  spec.timers.heartbeat_interval = Duration::Seconds(1);
  spec.timers.lost_after = Duration::Seconds(4);
  spec.timers.join_window = Duration();
  spec.timers.restart_delay = Duration();
  return spec;
}

TEST(SmallWorldsTest, RendezvousKeepsItsPromisesInEveryOrderOfSixEvents) {
  EXPECT_EQ(Walk(SmallWorld(Spec(1, 3)), "123xm", ""), 15'625U);
}

TEST(SmallWorldsTest, AWorldOfOneIsNumberedOnInEveryOrderOfSixEvents) {
  // Not all orders: five kills without progress end the job before the sixth event.
  EXPECT_GT(Walk(SmallWorld(Spec(1, 3)), "23xmk", ""), 15'000U);
}

TEST(SmallWorldsTest, TheLadderEndsInEveryOrderOfSixEvents) {
  EXPECT_GT(Walk(SmallWorld(Spec(2, 2)), "krl3p", ""), 10'000U);
}

}  // namespace
}  // namespace paceline::core
