// Nodes that leave the job or are taken out of it.

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/succession/memo.h"
#include "paceline/core/world/membership.h"

namespace paceline::core {

void CountConnection(Turn& turn, NodeId node, bool connected) {
  if (!connected) {
    turn.watch().checking.erase(node);
    turn.watch().pairs.has_loss = true;
  }
  const NodeState* known = turn.state().Find(node);
  if (known == nullptr || !known->IsMember()) return;
  uint32_t& count = turn.watch().connected_count;
  if (connected) {
    ++count;
  } else if (count > 0) {
    --count;
  }
}

void OnLeaving(Turn& turn, const NodeLeaving& event) {
  const auto found = turn.links().find(event.node);
  if (found == turn.links().end() || found->second.connection != event.connection) return;
  const NodeState* node = turn.state().Find(event.node);
  found->second.last_heard = turn.now();
  if (!node->IsMember()) return;
  LetLeave(turn, event.node, event.why.empty() ? "left" : "left (" + event.why + ")", {});
}

void LetLeave(Turn& turn, NodeId node, std::string reason, std::vector<RecordSeq> causes) {
  const NodeState& known = *turn.state().Find(node);
  if (turn.Link(node).connection) CountConnection(turn, node, false);
  // Images in the memory of a leaving node are not used: the memory may be gone before another node
  // has read them.
  if (known.notice.has_value()) turn.watch().checkpoints.Forget(node);
  turn.Emit(NodeLeft{.node = node, .name = known.name, .reason = std::move(reason)},
            std::move(causes));
  turn.TellSoon(node);
}

void EvictNode(Turn& turn, NodeId node, std::string reason, std::vector<RecordSeq> causes) {
  const NodeState& known = *turn.state().Find(node);
  if (turn.Link(node).connection) CountConnection(turn, node, false);
  // Its next incarnation would fail on that host, too. With the list full, the host stays.
  const bool has_room = turn.state().excluded.size() < Memo::kHostsMax;
  const bool is_chosen = turn.state().spec.is_placed && has_room;
  turn.Emit(NodeEvicted{.node = node,
                        .name = known.name,
                        .reason = std::move(reason),
                        .host = is_chosen ? turn.Link(node).host : ""},
            std::move(causes));
  turn.TellSoon(node);
}

}  // namespace paceline::core
