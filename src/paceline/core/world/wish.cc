#include "paceline/core/world/wish.h"

#include <string>
#include <utility>

#include "paceline/base/mark.h"

namespace paceline::core {
namespace {

uint32_t IndexEnd(const JobSpec& spec) { return spec.nodes_max + spec.spares; }

uint32_t IncarnationOf(const JobState& state, uint32_t index) {
  const auto found = state.wished.find(index);
  return found == state.wished.end() ? 0 : found->second.incarnation;
}

bool IsAbsent(const JobState& state, uint32_t index) {
  const auto found = state.wished.find(index);
  return found != state.wished.end() && found->second.replaced > kReplacedMax;
}

}  // namespace

Wish WishOf(const JobState& state) {
  Wish wish;
  wish.seq = state.last_seq.value();
  wish.size = state.spec.nodes_max;
  wish.spares = state.spec.spares;
  const bool is_over = state.phase == Phase::kStopping || state.phase == Phase::kFinished;
  wish.intent = is_over ? Wish::Intent::kDrain : Wish::Intent::kRun;
  for (const auto& [index, wished] : state.wished) {
    if (state.spec.is_placed && index >= IndexEnd(state.spec)) continue;
    if (wished.incarnation > 0) wish.incarnations[index] = wished.incarnation;
    if (wished.replaced > kReplacedMax) wish.absent.insert(index);
  }
  return wish;
}

bool IsFenced(const JobState& state, const std::string& name, uint32_t incarnation) {
  if (!state.spec.is_placed) return false;
  const std::optional<uint32_t> index = IndexOfNode(name);
  if (!index.has_value() || name != NameOfNode(*index)) return true;
  return *index >= IndexEnd(state.spec) || IsAbsent(state, *index) ||
         incarnation < IncarnationOf(state, *index);
}

std::optional<RefuseNode> CheckWished(const Turn& turn, const NodeRegistered& event) {
  const NodeReport& report = event.report;
  const JobState& state = turn.state();
  if (!IsFenced(state, report.name, report.incarnation)) return std::nullopt;
  // A node that left may still send a final report. It gets no seat.
  const NodeState* node = state.Find(report.name);
  const bool is_leaving = node != nullptr && node->status == NodeState::Status::kLeft;
  const std::optional<uint32_t> index = IndexOfNode(report.name);
  if (is_leaving && report.incarnation + 1 == IncarnationOf(state, *index)) return std::nullopt;
  MARK("node not wished for");
  RefuseNode refusal;
  refusal.connection = event.connection;
  refusal.code = "PL-E110";
  refusal.what = "node " + report.name + " is not wished for";
  refusal.why = node != nullptr ? "incarnation " + std::to_string(report.incarnation) +
                                      " of it was given up, because it " + node->reason +
                                      "; another one takes its place"
                                : "the platform was asked for node0 to " +
                                      NameOfNode(IndexEnd(state.spec) - 1) + " alone";
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
