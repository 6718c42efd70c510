// Control.Scale: answered when the choice is durable, or at once if it is refused.

#include "paceline/core/tasks/task_scale.h"
#include "paceline/master/handlers.h"

namespace paceline::master {

namespace {

wire::ScaleReply ScaleTasks(const core::JobState& state, const wire::ScaleRequest& request) {
  const TaskSpec& tasks = state.spec.tasks;
  wire::ScaleReply answer;
  answer.workers = request.workers == 0 ? tasks.workers : request.workers;
  answer.servers = request.servers == 0 ? tasks.servers : request.servers;
  answer.refusal = core::WhyNotTasks(state, answer.workers, answer.servers);
  return answer;
}

}  // namespace

void Handlers::operator()(const wire::ScaleAsked& asked) const {
  if (asked.request.workers > 0 || asked.request.servers > 0) {
    const wire::ScaleReply answer = ScaleTasks(loop.job_.state(), asked.request);
    if (!answer.refusal.empty() || asked.request.dry_run) {
      asked.reply(answer);
      return;
    }
    loop.Step(core::TasksRequested{
        .workers = answer.workers, .servers = answer.servers, .why = asked.request.why});
    loop.executor_.AddReply(loop.job_.state().last_seq,
                            [reply = asked.reply, answer] { reply(answer); });
    return;
  }
  wire::ScaleReply answer{.refusal = loop.job_.WhyNotSize(asked.request.nodes)};
  if (!answer.refusal.empty() || asked.request.dry_run) {
    asked.reply(answer);
    return;
  }
  loop.Step(core::SizeRequested{
      .nodes = asked.request.nodes, .at_once = asked.request.at_once, .why = asked.request.why});
  loop.executor_.AddReply(loop.job_.state().last_seq,
                          [reply = asked.reply, answer] { reply(answer); });
}

}  // namespace paceline::master
