// What the short files of this folder share: the registration functions and how a Status becomes an
// exception.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <utility>

#include "paceline/client/result.h"

namespace paceline::bindings {

void BindCommandLine(nanobind::module_& module);
void BindPage(nanobind::module_& module);
void BindQuietEnd(nanobind::module_& module);
void BindSession(nanobind::module_& module);
void BindSlotBook(nanobind::module_& module);

// Sets the Python exception for a failure and throws nanobind's way to say that one is set: OSError
// for what the system refused, RuntimeError otherwise. Call inside a binding.
[[noreturn]] void Raise(const client::Failure& failure);

template <typename T>
T ValueOrRaise(client::Result<T> result) {
  if (!result.ok()) Raise(result.failure());
  return std::move(*result);
}

inline void RaiseIfFailed(const std::optional<client::Failure>& failure) {
  if (failure) Raise(*failure);
}

}  // namespace paceline::bindings
