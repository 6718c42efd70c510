#include "paceline/core/checkpoint/rescue_node.h"

namespace paceline::core {

void RescueNode::NoteShard(ShardState shard) {
  if (shard.saved != call_.saved) return;
  const uint32_t rank = shard.rank.value();
  shards_[rank] = std::move(shard);
}

void RescueNode::Join(Todo* todo) {
  if (has_joined_ || is_linked_ || !is_living_) return;
  has_joined_ = true;
  todo->ends_ranks = true;
}

bool RescueNode::IsCalled(Instant now) const {
  const bool has_ended =
      call_.stage == RescueCall::Stage::kOver || call_.stage == RescueCall::Stage::kLeft;
  return beaten_at_.has_value() && !has_ended && now < *beaten_at_ + times_.lively;
}

RescueNode::Todo RescueNode::Look(Instant now, const std::optional<RescueCall>& call) {
  Todo todo;
  const bool is_one = call.has_value() && call->job_id == job_id_;
  const bool is_other = is_one && call->id != call_.id;
  const bool is_new = is_other || (is_one && call->beat != call_.beat);
  if (is_new) {
    is_living_ = !is_other;
    if (is_living_) beaten_at_ = now;
    if (is_other) shards_.clear();
    if (call->saved != call_.saved || call->stage != call_.stage) shards_.clear();
    lived_at_ = now;
    call_ = *call;
  }
  if (has_joined_ && !is_over_ && now >= lived_at_ + times_.patience) {
    is_over_ = true;
    todo.ends = true;
    return todo;
  }
  if (!is_one || is_over_) return todo;
  switch (call_.stage) {
    case RescueCall::Stage::kAsk: break;
    case RescueCall::Stage::kEnd: Join(&todo); break;
    case RescueCall::Stage::kStore:
      Join(&todo);
      if (!has_joined_ || !is_new) break;
      for (const RescueShard& shard : call_.shards) {
        const bool is_first = shard.node == node_ && !shards_.contains(shard.rank.value());
        if (!is_first) continue;
        shards_[shard.rank.value()] = {.rank = shard.rank, .saved = call_.saved, .took = {}};
        todo.writes.push_back(shard);
      }
      break;
    case RescueCall::Stage::kOver:
    case RescueCall::Stage::kLeft:
      if (!has_joined_) return todo;
      is_over_ = true;
      todo.ends = true;
      todo.frees_memory = call_.stage == RescueCall::Stage::kOver;
      return todo;
  }
  todo.answers = is_new;
  return todo;
}

RescueAnswer RescueNode::Answer(RescueAnswer memory) const {
  memory.job_id = job_id_;
  memory.id = call_.id;
  memory.node = node_;
  memory.beat = call_.beat;
  memory.stage = call_.stage;
  memory.has_master = is_linked_;
  memory.has_ended = has_joined_ && has_ended_;
  memory.shards.clear();
  for (const auto& [rank, shard] : shards_) memory.shards.push_back(shard);
  return memory;
}

Duration RescueNode::pause(Instant now) const {
  if (is_living_ && !is_over_ && now < lived_at_ + times_.lively) return times_.look_called;
  return is_linked_ ? times_.look_linked : times_.look_unlinked;
}

}  // namespace paceline::core
