#include "paceline/agent/ranks/failure_class.h"

#include <signal.h>

#include "paceline/logclass/builtin.h"
#include "paceline/logclass/classify.h"

namespace paceline::agent {

void NameClass(const logclass::RuleSet& rules, const ExitEvidence& evidence, ExitCause* cause) {
  using Kind = ExitCause::Kind;
  if (cause->is_success() || cause->port_taken) return;
  const std::string exception = ExceptionOf(evidence.error_record, evidence.pid);
  logclass::DeathTexts texts;
  texts.own_line = evidence.kernel_line;
  if (cause->kind == Kind::kSignaled) texts.headline = cause->headline;
  // A process that was killed from outside need not have died of what it had printed.
  const bool is_from_outside =
      cause->kind == Kind::kSignaled && (cause->code == SIGKILL || cause->code == SIGTERM);
  if (!is_from_outside) {
    texts.exception = exception;
    texts.is_own_code = cause->is_repeatable;
    texts.kernel_lines = evidence.kernel_lines;
    if (cause->kind != Kind::kUnknown) texts.stderr_tail = evidence.stderr_tail;
  }
  const logclass::Rule* rule = logclass::Classify(rules, texts);
  if (rule == nullptr) return;
  cause->cause_class = rule->name;
  cause->role = rule->role;
  const bool is_known = logclass::BuiltinRules().Find(rule->name) != nullptr;
  if (!is_known) cause->advice = rule->advice;
}

}  // namespace paceline::agent
