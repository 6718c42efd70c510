#include "paceline/core/world/wish.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/core/world/free_change.h"

namespace paceline::core {
namespace {

// A notice counts as a new one if its deadline is earlier than the former one by more than this.
constexpr Duration kSameNotice = Duration::Seconds(1);

uint32_t IndexEnd(const JobSpec& spec) { return spec.nodes_max + spec.spares; }

uint32_t IncarnationOf(const JobState& state, uint32_t index) {
  const auto found = state.wished.find(index);
  return found == state.wished.end() ? 0 : found->second.incarnation;
}

bool IsAbsent(const JobState& state, uint32_t index) {
  const auto found = state.wished.find(index);
  return found != state.wished.end() && found->second.replaced > kReplacedMax;
}

// The indexes that a job of a chosen size does not need: it neither trains on these nodes nor keeps
// them as spares. Nodes that are there are kept before others.
std::set<uint32_t> NotNeeded(const JobState& state) {
  std::set<uint32_t> others;
  if (state.size.nodes == 0) return others;
  for (uint32_t index = 0; index < IndexEnd(state.spec); ++index) {
    if (!IsAbsent(state, index)) others.insert(index);
  }
  size_t needed = state.NextBounds().nodes_max + state.spec.spares;
  const auto keep = [&](uint32_t index) {
    if (others.erase(index) > 0 && needed > 0) --needed;
  };
  for (const Seat& seat : state.last_world.seats) {
    if (const auto index = IndexOfNode(state.NameOf(seat.node))) keep(*index);
  }
  for (const bool is_there : {true, false}) {
    for (const uint32_t index : std::set<uint32_t>(others)) {
      const NodeState* node = state.Find(NameOfNode(index));
      if (needed > 0 && is_there == (node != nullptr && node->IsMember())) keep(index);
    }
  }
  return others;
}

// A refusal for now if the node before it, which is under notice, still takes part.
std::optional<RefuseNode> CheckPredecessor(const JobState& state, const NodeRegistered& event) {
  const NodeReport& report = event.report;
  const NodeState* node = state.Find(report.name);
  const std::optional<uint32_t> index = IndexOfNode(report.name);
  const bool is_leaver = node != nullptr && node->IsMember() && node->notice.has_value();
  if (!state.spec.is_placed || !is_leaver || report.incarnation < IncarnationOf(state, *index)) {
    return std::nullopt;
  }
  MARK("a successor waits for a leaver");
  RefuseNode refusal;
  refusal.connection = event.connection;
  refusal.code = "PL-E112";
  refusal.what = "the node before " + report.name + " has not left yet";
  refusal.why = "its platform takes it away, and it trains until that costs no step";
  refusal.fix = "nothing to do: the agent asks again, and joins when that node has left";
  refusal.retry = true;
  return refusal;
}

}  // namespace

Wish WishOf(const JobState& state) {
  Wish wish;
  wish.seq = state.last_seq.value();
  wish.size = state.spec.nodes_max;
  wish.spares = state.spec.spares;
  const bool is_over = state.phase == Phase::kStopping || state.phase == Phase::kFinished;
  wish.intent = is_over ? Wish::Intent::kDrain : Wish::Intent::kRun;
  wish.excluded = state.excluded;
  for (const auto& [index, wished] : state.wished) {
    if (state.spec.is_placed && index >= IndexEnd(state.spec)) continue;
    if (wished.incarnation > 0) wish.incarnations[index] = wished.incarnation;
    if (wished.replaced > kReplacedMax) wish.absent.insert(index);
  }
  if (state.spec.is_placed) wish.absent.merge(NotNeeded(state));
  return wish;
}

bool IsFenced(const JobState& state, const std::string& name, uint32_t incarnation) {
  if (!state.spec.is_placed) return false;
  const std::optional<uint32_t> index = IndexOfNode(name);
  if (!index.has_value() || name != NameOfNode(*index)) return true;
  const NodeState* node = state.Find(name);
  const bool is_leaver = node != nullptr && node->IsMember() && node->notice.has_value();
  if (is_leaver && incarnation + 1 == IncarnationOf(state, *index)) return false;
  return *index >= IndexEnd(state.spec) || IsAbsent(state, *index) ||
         NotNeeded(state).contains(*index) || incarnation < IncarnationOf(state, *index);
}

bool IsSuccessor(const JobState& state, const NodeLink& link, const NodeReport& report) {
  const std::optional<uint32_t> index = IndexOfNode(report.name);
  if (!state.spec.is_placed || !index.has_value()) return false;
  return report.incarnation > (link.registered ? link.incarnation : IncarnationOf(state, *index));
}

std::optional<RefuseNode> CheckWished(const Turn& turn, const NodeRegistered& event) {
  const NodeReport& report = event.report;
  const JobState& state = turn.state();
  const NodeState* node = state.Find(report.name);
  if (!IsFenced(state, report.name, report.incarnation)) {
    return CheckPredecessor(state, event);
  }
  // A node that left may still send a final report. It gets no seat.
  const bool is_leaving = node != nullptr && node->status == NodeState::Status::kLeft;
  const std::optional<uint32_t> index = IndexOfNode(report.name);
  if (is_leaving && report.incarnation + 1 == IncarnationOf(state, *index)) return std::nullopt;
  MARK("node not wished for");
  RefuseNode refusal;
  refusal.connection = event.connection;
  refusal.code = "PL-E110";
  refusal.what = "node " + report.name + " is not one that the master requested";
  const bool is_given_back = NotNeeded(state).contains(*index);
  refusal.why = is_given_back ? "the job was made smaller, and has spares enough"
                : node != nullptr
                    ? "incarnation " + std::to_string(report.incarnation) +
                          " of it was replaced, because it " + node->reason +
                          "; another one takes its place"
                    : "the master requested only node0 to " + NameOfNode(IndexEnd(state.spec) - 1);
  refusal.fix = "nothing to do: the platform removes this node";
  return refusal;
}

void OnGoneUnseen(Turn& turn, const NodeGone& event) {
  const JobState& state = turn.state();
  const std::optional<uint32_t> index = IndexOfNode(event.name);
  const bool is_over = state.phase == Phase::kStopping || state.phase == Phase::kFinished;
  if (!state.spec.is_placed || is_over || !index.has_value() || !event.incarnation.has_value()) {
    return;
  }
  const bool is_wished = event.name == NameOfNode(*index) && *index < IndexEnd(state.spec);
  // An incarnation that this master did not wish for was wished for by an earlier master, whose
  // journal is lost.
  if (!is_wished || *event.incarnation < IncarnationOf(state, *index)) return;
  MARK("node died before it came");
  turn.Emit(WishChanged{.name = event.name,
                        .incarnation = *event.incarnation + 1,
                        .reason = event.evidence.empty() ? "died" : event.evidence});
}

void OnNotice(Turn& turn, const NoticeCame& event) {
  const JobState& state = turn.state();
  const NodeState* node = state.Find(event.name);
  if (node == nullptr || !node->IsMember()) {
    OnGoneUnseen(turn, {.name = event.name,
                        .evidence = "was taken away by its platform",
                        .incarnation = event.incarnation});
    return;
  }
  const bool is_over = state.phase == Phase::kStopping || state.phase == Phase::kFinished;
  const NodeLink& link = turn.Link(node->id);
  const bool is_other =
      event.incarnation.has_value() && link.registered && *event.incarnation != link.incarnation;
  // A repetition tells about the same time.
  const Instant leave_by = turn.now() + std::max(Duration(), event.left);
  const bool is_known =
      node->notice.has_value() && leave_by + kSameNotice >= node->notice->leave_by;
  if (is_over || is_other || is_known) {
    MARK("stale notice");
    return;
  }
  MARK("notice taken");
  turn.Emit(NodeNoticed{.node = node->id,
                        .name = node->name,
                        .leave_by = leave_by,
                        .saved_step = NewestCheckpoint(turn),
                        .reason = event.why},
            {node->cause});
  turn.watch().leave_at = turn.now();
}

void TellWishes(Turn& turn) {
  Watch& watch = turn.watch();
  if (!std::exchange(watch.may_wish_anew, false)) return;
  const JobState& state = turn.state();
  if (state.phase == Phase::kEmpty || !state.spec.has_wish()) return;
  Wish wish = WishOf(state);
  if (watch.told_wish.has_value()) {
    const uint64_t seq = std::exchange(wish.seq, watch.told_wish->seq);
    if (wish == *watch.told_wish) return;
    wish.seq = seq;
  }
  watch.told_wish = wish;
  turn.Do(TellWish{std::move(wish)});
}

}  // namespace paceline::core
