// A value or the reason why there is none, without any library.
//
// absl::StatusOr is the rule elsewhere; here it cannot be. Distributions ship Abseil's archives as
// code that cannot go into a shared object, and the Python module must run on machines that have
// no Abseil. So what lives in a training process uses only the C++ runtime.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace paceline::client {

enum class FailureKind {
  kSystem,    // the system refused: Failure::error_number says why
  kNotAPage,  // the file is damaged or of another version: keep it as evidence
  kFenced,    // the slot belongs to a newer generation
  kNotOurs,   // it belongs to another process, job or node
  kBadSlot,   // the page has no such slot
};

struct Failure {
  FailureKind kind = FailureKind::kSystem;
  std::string message;
  int error_number = 0;
};

template <typename T>
class Result {
 public:
  Result(T value) : value_(std::move(value)) {}              // NOLINT: implicit, as StatusOr
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT

  bool ok() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  const Failure& failure() const { return failure_; }

 private:
  std::optional<T> value_;
  Failure failure_;
};

}  // namespace paceline::client
