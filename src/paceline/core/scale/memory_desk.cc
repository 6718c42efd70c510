#include "paceline/core/scale/memory_desk.h"

#include <algorithm>
#include <limits>

#include "paceline/core/memory_told.h"
#include "paceline/model/memory_unit.h"

namespace paceline::core {
namespace {

constexpr Duration kOutlookUnknown = Duration::Seconds(3600);

double SecondsOf(Instant at) { return static_cast<double>(at.nanoseconds()) * 1e-9; }

std::optional<brain::MemoryGrowth> GrowthIn(const std::deque<brain::MemoryWindow>& windows) {
  // Most nodes do not grow, and a line through all pairs costs more than this look.
  if (windows.size() < brain::kMemoryWindowsLeast) return std::nullopt;
  if (windows.back().bytes <= windows.front().bytes) return std::nullopt;
  return brain::GrowthOf(std::vector<brain::MemoryWindow>(windows.begin(), windows.end()));
}

}  // namespace

// The next step goes to storage after about as long as the one before it.
void MemoryDesk::NoteSaves(const JobState& state) {
  const CheckpointBook& book = state.checkpoints;
  if (book.commits == commits_ || !book.committed.has_value()) return;
  if (commits_ > 0 && book.commits == commits_ + 1) {
    between_saves_ = std::min(book.committed_at - committed_at_, kSaveMost);
  }
  commits_ = book.commits;
  committed_at_ = book.committed_at;
}

void MemoryDesk::Add(Instant now, const NodeMemory& memory, Node* node) {
  if (node->bound != memory.bound) *node = Node{.bound = memory.bound, .recent = {}, .past = {}};
  const brain::MemoryWindow window{.at = SecondsOf(now), .bytes = static_cast<double>(memory.used)};
  auto& recent = node->recent;
  if (!recent.empty() && window.at - recent.back().at < kShortest.ToSecondsF()) {
    recent.back().bytes = std::max(recent.back().bytes, window.bytes);
  } else {
    recent.push_back(window);
  }
  while (recent.size() > brain::kMemoryWindowsMost ||
         window.at - recent.front().at > kRecent.ToSecondsF()) {
    recent.pop_front();
  }
  auto& past = node->past;
  if (past.empty() || window.at - past.back().at >= kLongWindow.ToSecondsF()) {
    past.push_back(window);
    if (past.size() > brain::kMemoryWindowsMost) past.pop_front();
  } else {
    past.back().bytes = std::max(past.back().bytes, window.bytes);
  }
}

std::optional<MemoryForeseen> MemoryDesk::Take(const JobState& state, const Facts& facts, NodeId id,
                                               const NodeMemory& memory) {
  NoteSaves(state);
  if (state.phase != Phase::kRunning || !state.IsSeated(id) || memory.limit == 0) {
    return std::nullopt;
  }
  if (generation_ != state.world->generation) {
    generation_ = state.world->generation;
    nodes_.clear();
  }
  if (facts.now - state.phase_since < kWarmUp) return std::nullopt;
  Add(facts.now, memory, &nodes_[id]);
  const NodeState& node = *state.Find(id);
  const MemoryTold* told = MemoryToldOf(state, node);
  if (told != nullptr && told->limit >= memory.limit) return std::nullopt;
  // A raise is on its way.
  const bool is_raised = memory.bound == MemoryBound::kNode && memory.limit < node.memory_limit;
  return is_raised ? std::nullopt : Judge(state, facts, node, memory);
}

bool MemoryDesk::IsRaisable(const JobState& state, const NodeMemory& memory) {
  return memory.bound == MemoryBound::kNode && state.spec.memory_most > memory.limit;
}

brain::MemoryQuestion MemoryDesk::QuestionOf(const JobState& state, const Facts& facts,
                                             const NodeMemory& memory) const {
  const std::optional<Duration> told = facts.outlook ? facts.outlook() : std::nullopt;
  const double job_left = told.value_or(kOutlookUnknown).ToSecondsF();
  brain::MemoryQuestion question{.limit = static_cast<double>(memory.limit),
                                 .next_save = between_saves_.ToSecondsF(),
                                 .change = kChange.ToSecondsF(),
                                 .outlook = job_left,
                                 .most = std::numeric_limits<double>::infinity()};
  if (!IsRaisable(state, memory)) return question;
  question.outlook = std::min(job_left, kAhead * (between_saves_ + kChange).ToSecondsF());
  question.most = static_cast<double>(state.spec.memory_most);
  return question;
}

std::optional<MemoryForeseen> MemoryDesk::Judge(const JobState& state, const Facts& facts,
                                                const NodeState& node,
                                                const NodeMemory& memory) const {
  const Node& known = nodes_.at(node.id);
  std::optional<MemoryForeseen> found;
  for (const auto* windows : {&known.recent, &known.past}) {
    const std::optional<brain::MemoryGrowth> growth = GrowthIn(*windows);
    if (!growth.has_value()) continue;
    const brain::MemoryQuestion question = QuestionOf(state, facts, memory);
    const std::optional<double> due = brain::DueLimit(*growth, question);
    if (!due.has_value()) continue;
    const double left = growth->Until(question.limit);
    if (found.has_value() && found->left.ToSecondsF() <= left) continue;
    found = MemoryForeseen{
        .node = node.id,
        .generation = state.world->generation,
        .memory = memory,
        .grows = growth->bytes_per_second,
        .left = Duration::Milliseconds(static_cast<int64_t>(left * 1000)),
        .next_limit = IsRaisable(state, memory) ? WholeUnits(static_cast<uint64_t>(*due)) : 0};
  }
  return found;
}

}  // namespace paceline::core
