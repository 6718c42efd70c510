#include "paceline/logclass/builtin.h"

#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/logclass/rule_file.h"

namespace paceline::logclass {

absl::StatusOr<RuleSet> MakeRules(const std::vector<RuleText>& texts) {
  std::vector<Rule> all;
  for (const RuleText& text : texts) {
    ASSIGN_OR_RETURN(std::vector<Rule> rules, ReadRules(text.text, text.shown_path));
    for (Rule& rule : rules) all.push_back(std::move(rule));
  }
  return RuleSet::Make(std::move(all));
}

const RuleSet& BuiltinRules() {
  static const RuleSet* const kRules = [] {
    absl::StatusOr<RuleSet> made = MakeRules(BuiltinTexts());
    CHECK(made.ok());
    return new RuleSet(*std::move(made));
  }();
  return *kRules;
}

}  // namespace paceline::logclass
