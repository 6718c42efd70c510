#pragma once

// The class of a failed rank, as its event has it, with the advice of the class. Pure.

#include <optional>
#include <string>

#include "paceline/wire/messages.h"

namespace paceline::cli {

struct FailureClass {
  std::string name;
  std::string role;    // cause, cascade or advice
  std::string advice;  // empty: neither the event nor this version has it
  bool is_general = false;
};

// Nothing if no class matched.
std::optional<FailureClass> ClassOf(const wire::JobEvent& fault);

// "cuda_oom (cause): lower the batch size …"; "" without a class.
std::string ClassText(const std::optional<wire::JobEvent>& fault);

}  // namespace paceline::cli
