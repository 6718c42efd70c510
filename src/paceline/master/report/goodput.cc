#include "paceline/master/report/goodput.h"

#include <algorithm>
#include <variant>

namespace paceline::master {

void Goodput::Begin(Instant at) {
  if (!training_since_.has_value()) training_since_ = at;
}

void Goodput::End(Instant at) {
  if (training_since_.has_value()) trained_ += at - *training_since_;
  training_since_.reset();
}

void Goodput::Fold(const core::Record& record) {
  const core::Fact& fact = record.fact;
  if (std::holds_alternative<core::WorldFormed>(fact)) {
    if (!first_world_at_.has_value()) first_world_at_ = record.at;
    End(record.at);
  } else if (std::holds_alternative<core::WorldRunning>(fact)) {
    if (!is_redoing_) Begin(record.at);
  } else if (const auto* made = std::get_if<core::ProgressMade>(&fact);
             made != nullptr && made->evidence.empty()) {
    is_redoing_ = false;
    Begin(record.at);
  } else if (std::holds_alternative<core::WorldEnded>(fact)) {
    End(record.at);
    is_redoing_ = true;
  } else if (std::holds_alternative<core::JobFinished>(fact)) {
    End(record.at);
    finished_at_ = record.at;
  } else if (std::holds_alternative<core::JobResumed>(fact)) {
    if (first_world_at_ && finished_at_) *first_world_at_ += record.at - *finished_at_;
    finished_at_.reset();
    is_redoing_ = true;
  }
}

double Goodput::Share(Instant now) const {
  if (!first_world_at_.has_value()) return 0;
  now = finished_at_.value_or(now);
  Duration trained = trained_;
  if (training_since_.has_value()) trained += now - *training_since_;
  const double passed = (now - *first_world_at_).ToSecondsF();
  return passed <= 0 ? 0 : std::clamp(trained.ToSecondsF() / passed, 0.0, 1.0);
}

}  // namespace paceline::master
