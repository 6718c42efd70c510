#include "paceline/cli/show/failure_class.h"

#include "paceline/base/text.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/console/text.h"
#include "paceline/logclass/builtin.h"

namespace paceline::cli {

std::optional<FailureClass> ClassOf(const wire::JobEvent& fault) {
  FailureClass found{.name = DetailOf(fault, "class"),
                     .role = DetailOf(fault, "role"),
                     .advice = DetailOf(fault, "advice")};
  if (found.name.empty()) return std::nullopt;
  const logclass::Rule* rule = logclass::BuiltinRules().Find(found.name);
  if (rule != nullptr) {
    found.advice = rule->advice;
    found.is_general = rule->is_general;
  }
  return found;
}

std::string ClassText(const std::optional<wire::JobEvent>& fault) {
  const auto found = fault.has_value() ? ClassOf(*fault) : std::nullopt;
  if (!found.has_value()) return "";
  return Visible(Concat(found->name, " (", found->role, ")", found->advice.empty() ? "" : ": ",
                        found->advice));
}

}  // namespace paceline::cli
