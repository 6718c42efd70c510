#include "paceline/agent/memory/rescue_desk.h"

#include <utility>

#include "paceline/base/log.h"

namespace paceline::agent {

RescueDesk::~RescueDesk() {
  if (timer_ != 0) reactor_.Cancel(timer_);
}

// Called at each failed try to connect, several in a second: the looks keep their time.
void RescueDesk::SetLinked(bool is_linked) {
  if (timer_ != 0 && std::exchange(is_linked_, is_linked) == is_linked) return;
  is_linked_ = is_linked;
  node_.SetLinked(is_linked);
  Arm();
}

bool RescueDesk::Holds() {
  node_.NoteEnded();
  is_holding_ = node_.holds(MonotonicNow());
  return is_holding_;
}

// The call that an agent without hope has waited for is over, or its command was killed.
void RescueDesk::LetGo() {
  if (!is_holding_ || node_.holds(MonotonicNow())) return;
  is_holding_ = false;
  host_.ended(/*frees_memory=*/false);
}

void RescueDesk::Arm() {
  if (timer_ != 0) reactor_.Cancel(std::exchange(timer_, 0));
  const Instant now = MonotonicNow();
  timer_ = reactor_.CallAt((now + node_.pause(now)).nanoseconds(), [this] {
    timer_ = 0;
    Look();
  });
}

void RescueDesk::Look() {
  const std::string directory = host_.directory();
  // A look at storage that hangs is not repeated.
  if (directory.empty() || is_looking_) return Arm();
  is_looking_ = true;
  RescueTask task{.directory = directory, .answer = std::nullopt};
  if (std::exchange(answers_, false)) task.answer = node_.Answer(host_.memory());
  host_.look(std::move(task));
  Arm();
}

void RescueDesk::OnLooked(const RescueDone& done) {
  is_looking_ = false;
  if (!done.problem.empty()) {
    LogWarning("rescue_look", {{"why", done.problem}});
    answers_ = answers_ || done.has_answered;  // it may not be there
    return LetGo();
  }
  const core::RescueNode::Todo todo = node_.Look(MonotonicNow(), done.call);
  answers_ = answers_ || todo.answers;
  if (todo.ends_ranks) {
    LogInfo("rescue_joined", {{"call", node_.call().id}, {"term", node_.term()}});
    host_.end_ranks(node_.term());
  }
  for (const RescueShard& shard : todo.writes) host_.write(shard, node_.call());
  if (todo.ends) {
    LogInfo("rescue_over", {{"call", node_.call().id}});
    return host_.ended(todo.frees_memory);
  }
  if (todo.answers) return Look();
  LetGo();
}

void RescueDesk::OnShard(const ShardDone& done) {
  LogInfo("rescue_shard", {{"rank", done.task.place.rank},
                           {"checkpoint", done.task.place.name},
                           {"ms", done.took.milliseconds()},
                           {"problem", done.problem}});
  node_.NoteShard({.rank = Rank(done.task.place.rank),
                   .saved = done.task.place.saved,
                   .is_durable = done.problem.empty(),
                   .problem = done.problem,
                   .took = done.took});
}

}  // namespace paceline::agent
