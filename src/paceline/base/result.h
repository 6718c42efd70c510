#pragma once

// A value, or the reason why there is none, without any library.
//
// Hosts use absl::StatusOr; a training process cannot. Distributions ship Abseil as archives that
// cannot be linked into a shared object, and the Python module must run on machines without Abseil.
// So client/ and ckpt/ use this type, and an agent that calls ckpt/ copies the failure's text.
// RETURN_IF_ERROR and ASSIGN_OR_RETURN work with both.

#include <optional>
#include <string>
#include <utility>

namespace paceline {

enum class FailureKind {
  kSystem,    // the system refused: Failure::error_number says why
  kInvalid,   // an argument or a file violates its format
  kDamaged,   // not what was written: keep it as evidence, use another
  kNotFound,  // there is none
  kExists,    // there is one already
  kFull,      // no room on the disk or in memory
  kBusy,      // not now; the same call may succeed later
  kTooLarge,  // does not fit into what was prepared for it
  kNotHere,   // this kernel or file system does not support it
  kNotAPage,  // no progress page of this version, or a damaged one
  kFenced,    // it belongs to a newer generation
  kNotOurs,   // it belongs to another process, job, node, user or boot
  kBadSlot,   // the page has no such slot
};

struct Failure {
  FailureKind kind = FailureKind::kSystem;
  std::string message;
  int error_number = 0;
};

// The same failure, with "context: " in front of its message.
inline Failure Annotate(Failure failure, const std::string& context) {
  failure.message = context + ": " + failure.message;
  return failure;
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}              // NOLINT: implicit, as StatusOr
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT

  bool ok() const { return value_.has_value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Failure& failure() const { return failure_; }

 private:
  std::optional<T> value_;
  Failure failure_;
};

// Success, or the reason of the failure.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT

  bool ok() const { return !failure_.has_value(); }
  const Failure& failure() const { return *failure_; }

 private:
  std::optional<Failure> failure_;
};

namespace status_internal {
template <class T>
const Failure& StatusOf(const Result<T>& result) {
  return result.failure();
}
}  // namespace status_internal

}  // namespace paceline

#define PACELINE_JOIN_INNER(a, b) a##b
#define PACELINE_JOIN(a, b) PACELINE_JOIN_INNER(a, b)

#define RETURN_IF_ERROR(expression)                                     \
  do {                                                                  \
    if (auto&& paceline_result = (expression); !paceline_result.ok()) { \
      return ::paceline::status_internal::StatusOf(paceline_result);    \
    }                                                                   \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER(PACELINE_JOIN(paceline_result_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_INNER(result, target, expression)                \
  auto result = (expression);                                             \
  if (!result.ok()) return ::paceline::status_internal::StatusOf(result); \
  target = *std::move(result)
