#pragma once

// The classes that are compiled in, from the files of log_classes/.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/logclass/rule_set.h"

namespace paceline::logclass {

struct RuleText {
  std::string shown_path;
  std::string_view text;
};

// In the order in which their rules are matched.
std::vector<RuleText> BuiltinTexts();

// The rules of these files, checked together.
absl::StatusOr<RuleSet> MakeRules(const std::vector<RuleText>& texts);

// Made at the first call, in 30 ms.
const RuleSet& BuiltinRules();

}  // namespace paceline::logclass
