#pragma once

// One function for each rule. kRules in judge.cc has their order.

#include <optional>

#include "paceline/diagnose/scene.h"

namespace paceline::diagnose {

std::optional<Verdict> JudgeDebugger(const Scene& scene);
std::optional<Verdict> JudgeEnding(const Scene& scene);
std::optional<Verdict> JudgeStopped(const Scene& scene);
std::optional<Verdict> JudgeMismatchedCall(const Scene& scene);
std::optional<Verdict> JudgeAbsent(const Scene& scene);
std::optional<Verdict> JudgeOrder(const Scene& scene);
std::optional<Verdict> JudgeStorage(const Scene& scene);
std::optional<Verdict> JudgeEverybody(const Scene& scene);

}  // namespace paceline::diagnose
