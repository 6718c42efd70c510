#include "paceline/agent/ranks/plan_desk.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "paceline/base/json_field.h"
#include "paceline/base/log.h"

namespace paceline::agent {
namespace {

// Why the note is not passed on, as one sentence; "" if it is.
std::string_view WhyRefused(const PlanNote& note) {
  if (note.generation == Generation() || note.words.empty()) return "a field is missing";
  for (const std::string* text : {&note.summary, &note.wishes, &note.cluster}) {
    if (text->empty()) return "a field is missing";
    if (text->size() > kPlanNoteTextMax) return "a text is longer than 64 KiB";
  }
  if (note.plan.size() > kPlanNotePlanMax) return "the plan is longer than 256 KiB";
  for (const std::string* text : {&note.words, &note.because}) {
    if (text->size() > kPlanNoteSentenceMax) return "a sentence is longer than 8 KiB";
  }
  return std::isfinite(note.step) && note.step >= 0 ? "" : "the step time is impossible";
}

}  // namespace

nlohmann::json PlanDesk::Take(const nlohmann::json& message) {
  PlanNote note{.generation = Generation(JsonInt<uint64_t>(message, "generation")),
                .summary = JsonText(message, "summary"),
                .wishes = JsonText(message, "wishes"),
                .cluster = JsonText(message, "cluster"),
                .plan = JsonText(message, "plan"),
                .words = JsonText(message, "words"),
                .because = JsonText(message, "because"),
                .step = JsonNumber(message, "step"),
                .moves = JsonBool(message, "moves", false)};
  const std::string_view why = WhyRefused(note);
  if (!why.empty()) {
    LogWarning("plan_refused", {{"generation", note.generation}, {"why", why}});
    return {{"op", "error"},
            {"what", "the agent cannot pass the parallel plan on"},
            {"where", "parallelize"},
            {"why", why},
            {"fix", "the same release of paceline in the ranks and on the host"}};
  }
  LogInfo("plan_told", {{"generation", note.generation}, {"plan", note.words}});
  newest_ = std::move(note);
  tell_(*newest_);
  return {{"op", "planned"}};
}

void PlanDesk::Linked() const {
  if (newest_.has_value()) tell_(*newest_);
}

}  // namespace paceline::agent
