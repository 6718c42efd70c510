#include "paceline/core/world/node_check.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/mark.h"
#include "paceline/base/number_text.h"
#include "paceline/base/text.h"
#include "paceline/core/world/membership.h"
#include "paceline/core/world/pair_tests.h"

namespace paceline::core {

namespace {

// So many nodes are named in a text.
constexpr size_t kNodesNamedMax = 4;

bool IsOver(const JobState& state) {
  return state.phase == Phase::kStopping || state.phase == Phase::kFinished;
}

// What `paceline doctor --measure` measured on a node, by name. A larger number is a faster host.
using Measured = std::array<double, 2>;
struct Measurement {
  const char* key;
  std::string_view text;
};
constexpr std::array<Measurement, 2> kMeasurements = {{
    {"matmul_gflops", "matmul (GFLOP/s)"},
    {"memory_gb_s", "memory (GB/s)"},
}};
// A host below this part of the median of the others is broken. Hosts of one kind differ by less.
constexpr double kLeastPart = 0.6;
// With fewer others, no one could say which of the hosts is the odd one.
constexpr size_t kOthersMin = 2;

std::optional<Measured> MeasuredOn(const NodeState& node) {
  if (!node.check.has_value() || node.check->numbers.empty()) return std::nullopt;
  const nlohmann::json numbers = ParseJson(node.check->numbers);
  const auto host = numbers.find("host");
  if (host == numbers.end() || !host->is_object()) return std::nullopt;
  Measured measured{};
  for (size_t i = 0; i < measured.size(); ++i) {
    measured[i] = JsonNumber(*host, kMeasurements[i].key);
  }
  return measured;
}

// The median of value `which` of all nodes but the one at `left_out`. An even count has the lower
// one of its two middle values.
double MedianOfOthers(const std::vector<std::pair<NodeId, Measured>>& all, size_t left_out,
                      size_t which) {
  std::vector<double> values;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i != left_out) values.push_back(all[i].second[which]);
  }
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// "matmul (GFLOP/s): 3, and the median of the other nodes is 8"; "": the host is as the others.
std::string WhySlower(const std::vector<std::pair<NodeId, Measured>>& all, size_t at) {
  for (size_t which = 0; which < kMeasurements.size(); ++which) {
    const double own = all[at].second[which];
    const double median = MedianOfOthers(all, at, which);
    if (own >= kLeastPart * median) continue;
    return Concat("host: ", kMeasurements[which].text, ": ", FixedText(own, 1),
                  ", and the median of the other nodes is ", FixedText(median, 1));
  }
  return "";
}

void OrderChecks(Turn& turn, const NodeState& node, bool is_slow, std::string reason,
                 RecordSeq cause) {
  const NodeId id = node.id;
  turn.Emit(NodeCheckOrdered{.node = id,
                             .name = node.name,
                             .round = std::max(node.check_round, turn.Link(id).check.round) + 1,
                             .is_slow = is_slow,
                             .reason = std::move(reason)},
            {cause});
  if (turn.Link(id).connection) turn.watch().checking.insert(id);
  turn.TellSoon(id);
}

}  // namespace

void OnCheckEnded(Turn& turn, const NodeCheckEnded& event) {
  const auto found = turn.links().find(event.node);
  if (found == turn.links().end() || found->second.connection != event.connection) {
    MARK("stale check");
    return;
  }
  found->second.check = event.check;
  TakeCheck(turn, event.node);
}

void TakeCheck(Turn& turn, NodeId id) {
  const NodeLink& link = turn.Link(id);
  const NodeState* node = turn.state().Find(id);
  Watch& watch = turn.watch();
  if (!link.connection || !node->IsMember()) return;
  // The agent has not heard yet that they are to be run again, or was started anew since.
  const bool is_old = link.check.round < node->check_round;
  if (is_old || link.check.state == NodeCheck::State::kRunning) {
    watch.checking.insert(id);
    return;
  }
  if (watch.checking.erase(id) > 0) watch.dirty = true;
  AwaitPairs(turn, id);
  if (!link.check.is_over() || IsOver(turn.state()) || node->check == link.check) return;
  const bool is_ok = link.check.state == NodeCheck::State::kPassed;
  turn.Emit(NodeChecked{.node = id,
                        .name = node->name,
                        .ok = is_ok,
                        .reason = link.check.reason,
                        .numbers = link.check.numbers,
                        .round = link.check.round},
            {node->cause});
  if (is_ok) {
    // Before the first world it is enough to compare once all are there.
    const bool is_complete = watch.checking.empty() || turn.state().generation.value() > 0;
    while (is_complete && CompareHosts(turn)) {
    }
    return;
  }
  MARK("a node that failed its checks is taken out");
  EvictNode(turn, id, "failed its checks: " + link.check.reason, {turn.state().last_seq});
}

bool CompareHosts(Turn& turn) {
  const JobState& state = turn.state();
  std::vector<std::pair<NodeId, Measured>> all;
  for (const auto& [id, node] : state.nodes) {
    const std::optional<Measured> measured = node.IsMember() ? MeasuredOn(node) : std::nullopt;
    if (measured.has_value()) all.emplace_back(id, *measured);
  }
  if (all.size() <= kOthersMin) return false;
  for (size_t i = 0; i < all.size(); ++i) {
    const NodeState& node = *state.Find(all[i].first);
    if (node.status != NodeState::Status::kSpare) continue;
    std::string why = WhySlower(all, i);
    if (why.empty()) continue;
    if (!node.is_slow_once) {
      MARK("a slow host is measured once more");
      OrderChecks(turn, node, /*is_slow=*/true, std::move(why), node.cause);
      return true;
    }
    MARK("a host that is much slower than the others is taken out");
    why += "; it was as slow when it was measured before";
    turn.Emit(NodeChecked{.node = node.id,
                          .name = node.name,
                          .ok = false,
                          .reason = why,
                          .numbers = node.check->numbers,
                          .round = node.check->round},
              {node.cause});
    EvictNode(turn, node.id, "failed its checks: " + why, {state.last_seq});
    return true;
  }
  return false;
}

bool NoteMoved(Turn& turn) {
  const JobState& state = turn.state();
  if (!state.moved_node.has_value()) return false;
  const NodeState* node = state.Find(*state.moved_node);
  // Without a check before, the job has none.
  const bool is_due =
      node != nullptr && node->status == NodeState::Status::kSpare && node->check.has_value();
  if (!is_due) return false;
  MARK("a host whose ranks were moved is checked again");
  OrderChecks(turn, *node, /*is_slow=*/false, "a spare has taken its ranks, as it was slow",
              state.world_seq);
  return true;
}

void NoteCheck(const NodeChecked& fact, JobState* state) {
  NodeState& node = state->nodes[fact.node];
  node.id = fact.node;
  node.check = NodeCheck{.state = fact.ok ? NodeCheck::State::kPassed : NodeCheck::State::kFailed,
                         .reason = fact.reason,
                         .numbers = fact.numbers,
                         .round = fact.round};
}

void NoteCheckOrder(const NodeCheckOrdered& fact, JobState* state) {
  NodeState& node = state->nodes[fact.node];
  node.id = fact.node;
  node.check.reset();
  node.check_round = fact.round;
  node.is_slow_once = node.is_slow_once || fact.is_slow;
  if (state->moved_node == fact.node) state->moved_node.reset();
}

std::string ChecksText(Turn& turn) {
  const JobState& state = turn.state();
  std::string text;
  size_t named = 0;
  for (const auto& [id, node] : state.nodes) {
    const bool has_failed = node.check.has_value() && node.status == NodeState::Status::kEvicted &&
                            node.check->state == NodeCheck::State::kFailed;
    const bool is_checked = turn.watch().checking.contains(id);
    if (!has_failed && !is_checked) continue;
    if (++named > kNodesNamedMax) return text + "; …";
    text += "; " + node.name +
            (has_failed ? " failed its checks: " + node.check->reason
                        : std::string(node.check_round > 0 ? " is being checked once more"
                                                           : " is being checked"));
  }
  return text;
}

}  // namespace paceline::core
