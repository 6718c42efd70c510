#include "paceline/diagnose/judge.h"

#include <algorithm>
#include <array>

#include "paceline/diagnose/rule/all.h"

namespace paceline::diagnose {
namespace {

// Facts about a single rank come before conclusions from the wait graph.
constexpr std::array<Rule, 8> kRules = {{
    {"debugger", JudgeDebugger},
    {"ending", JudgeEnding},
    {"stopped", JudgeStopped},
    {"mismatched call", JudgeMismatchedCall},
    {"absent", JudgeAbsent},
    {"order", JudgeOrder},
    {"storage", JudgeStorage},
    {"everybody", JudgeEverybody},
}};

// The longest time between two looks.
constexpr Duration kLookAgainMax = Duration::Seconds(60);

}  // namespace

Verdict Judge(const Facts& facts) {
  const Scene scene{facts, MakeWaitGraph(facts)};
  for (const Rule& rule : kRules) {
    std::optional<Verdict> verdict = rule.judge(scene);
    if (!verdict.has_value()) continue;
    verdict->look_again = std::min(verdict->look_again, kLookAgainMax);
    if (verdict->act != HangAct::kNone) AddLines(scene, &*verdict);
    return *std::move(verdict);
  }
  return {.look_again = kLookAgainMax};
}

}  // namespace paceline::diagnose
