// Control.OpenPage, and the pulse of the page's feed.

#include <utility>

#include "paceline/base/json.h"
#include "paceline/core/job_state.h"
#include "paceline/master/handlers.h"

namespace paceline::master {

void Handlers::operator()(const wire::PageAsked& asked) const {
  asked.reply(loop.outside_->MakePageLink());
}

// Cheap at any number of nodes, unlike the whole status.
void Handlers::operator()(const PulseAsked& asked) const {
  const Instant now = loop.clock_.Now();
  const core::JobState& state = loop.job_.state();
  const int64_t step = loop.job_.step() < 0 ? loop.job_.step_count() : loop.job_.step();
  const bool is_known = step > 0 || loop.job_.step() >= 0;
  const double speed = loop.pace_.PerSecond(now);
  nlohmann::json pulse = {{"at", static_cast<double>(now.nanoseconds()) / 1e9},
                          {"seq", loop.executor_.durable().value()},
                          {"phase", core::PhaseName(state.phase)}};
  pulse["step"] = is_known ? nlohmann::json(step) : nlohmann::json();
  pulse["steps_per_second"] = speed > 0 ? nlohmann::json(speed) : nlohmann::json();
  asked.reply(PrintJson(pulse));
}

void Handlers::operator()(const BriefAsked& asked) const {
  wire::JobStatus status = loop.Brief();
  status.steps_total = loop.counts_.Of(loop.job_).steps_total;
  asked.reply(std::move(status));
}

void Handlers::operator()(const HeatAsked& asked) const {
  asked.reply(loop.heat_.Encode(loop.clock_.Now(), asked.known));
}

}  // namespace paceline::master
