#pragma once

#include <string>

#include "paceline/logclass/rule_set.h"

namespace paceline::logclass {

// The page of all classes, as docs/guides/failure-classes.md has it.
std::string ClassesPage(const RuleSet& rules);

}  // namespace paceline::logclass
