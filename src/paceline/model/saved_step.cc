#include "paceline/model/saved_step.h"

#include <limits>

#include "paceline/base/text.h"

namespace paceline {
namespace {

// Takes the leading digits as a number. None: there are none, or too many.
template <class Number>
std::optional<Number> TakeNumber(std::string_view* text) {
  const std::string_view digits = text->substr(0, text->find_first_not_of("0123456789"));
  text->remove_prefix(digits.size());
  return digits.empty() ? std::nullopt : ParseWhole<Number>(digits);
}

}  // namespace

std::string CheckpointNameOf(SavedStep saved) {
  std::string name = Concat("step-", saved.step, "-g", saved.generation);
  if (saved.branch > 0) Append(&name, "-b", saved.branch);
  return name;
}

std::optional<SavedStep> SavedStepIn(std::string_view name) {
  SavedStep saved;
  if (!TakePrefix(&name, "step-")) return std::nullopt;
  const auto step = TakeNumber<int64_t>(&name);
  if (!step.has_value() || !TakePrefix(&name, "-g")) return std::nullopt;
  const auto generation = TakeNumber<uint64_t>(&name);
  if (!generation.has_value()) return std::nullopt;
  saved.step = *step;
  saved.generation = *generation;
  if (name.empty()) return saved;
  if (!TakePrefix(&name, "-b")) return std::nullopt;
  const auto branch = TakeNumber<uint64_t>(&name);
  // "-b0" is refused, so that each save has only one name: branch 0 has no suffix.
  if (!branch.has_value() || *branch == 0 || !name.empty()) return std::nullopt;
  saved.branch = *branch;
  return saved;
}

std::string Say(SavedStep saved) {
  std::string text = Concat("step ", saved.step);
  if (saved.branch > 0) Append(&text, " (branch ", saved.branch, ")");
  return text;
}

}  // namespace paceline
