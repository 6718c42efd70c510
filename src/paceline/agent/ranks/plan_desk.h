#pragma once

// The parallel plan that rank 0 of the world reported, if rank 0 runs on this node. Each master
// gets it once, because the journal may not have it yet.

#include <functional>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "paceline/model/plan_note.h"

namespace paceline::agent {

class PlanDesk {
 public:
  explicit PlanDesk(std::function<void(const PlanNote&)> tell) : tell_(std::move(tell)) {}

  // A rank's message `plan` of docs/formats/checkpoint_socket.md. Returns the answer.
  nlohmann::json Take(const nlohmann::json& message);
  // A master is connected that may not know the plan.
  void Linked() const;

 private:
  const std::function<void(const PlanNote&)> tell_;
  std::optional<PlanNote> newest_;
};

}  // namespace paceline::agent
