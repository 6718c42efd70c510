#pragma once

// How the command line carries and prints errors. Functions here return Result<T>: the value, or
// the Problem that a user will read. Nothing is thrown.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "paceline/model/problem.h"

namespace paceline::cli {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}            // NOLINT
  Result(Problem problem) : content_(std::in_place_index<1>, std::move(problem)) {}  // NOLINT

  bool ok() const { return content_.index() == 0; }
  const Problem& problem() const { return std::get<1>(content_); }
  T& value() { return std::get<0>(content_); }
  const T& value() const { return std::get<0>(content_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Problem> content_;
};

// Success, or a problem.
using Check = std::optional<Problem>;

// The Problem that a Status carries. If it carries none, a Problem made from its code and message.
Problem ProblemFrom(const absl::Status& status);

// Exit code of a command that ends with `problem`, from the table of codes.
int ExitCodeOf(const Problem& problem);

struct ErrorStyle {
  bool color = false;
  std::string_view severity = "error";  // or "warn"
};

// The four parts, one to twelve lines, each ending in a line break. Control characters of the parts
// are made visible: they may come from foreign text.
std::string RenderProblem(const Problem& problem, const ErrorStyle& style = {});

// The first problem that RenderProblem wrote into a log without colours; other lines are skipped.
std::optional<Problem> FirstProblemIn(std::string_view text);

// {"schema":"paceline.error/1", …}, one line without a line break at the end.
std::string RenderProblemJson(const Problem& problem);

}  // namespace paceline::cli
