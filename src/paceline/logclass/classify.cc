#include "paceline/logclass/classify.h"

#include <initializer_list>

namespace paceline::logclass {
namespace {

const Rule* FirstOf(std::initializer_list<const Rule*> rules) {
  for (const Rule* rule : rules) {
    if (rule != nullptr) return rule;
  }
  return nullptr;
}

}  // namespace

const Rule* Classify(const RuleSet& rules, const DeathTexts& texts) {
  const Matches own = rules.Scan(texts.own_line);
  const Matches told = rules.Scan(texts.headline);
  const Matches raised = rules.Scan(texts.exception);
  if (const Rule* rule = FirstOf({own.cause, told.cause, raised.cause})) return rule;
  if (texts.is_own_code && raised.cascade == nullptr && raised.general != nullptr) {
    return raised.general;
  }
  const Matches kernel = rules.Scan(texts.kernel_lines, /*is_kernel=*/true);
  // An exception says more than lines before it, unless it only follows from something else.
  if (raised.general != nullptr && raised.cascade == nullptr) {
    return FirstOf({kernel.cause, raised.general});
  }
  const Matches printed = rules.Scan(texts.stderr_tail);
  return FirstOf({printed.cause, kernel.cause, raised.cascade, printed.cascade, raised.general,
                  printed.general, told.general, own.advice, printed.advice, kernel.advice});
}

}  // namespace paceline::logclass
