// The registration functions of this folder's files, and the conversion of a Status into a Python
// exception.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <utility>

#include "paceline/base/result.h"

namespace paceline::bindings {

void BindCallSites(nanobind::module_& module);
void BindCheckpoint(nanobind::module_& module);
void BindCollectives(nanobind::module_& module);
void BindCollectiveWorks(nanobind::module_& module);
void BindCommandLine(nanobind::module_& module);
void BindDataOrder(nanobind::module_& module);
void BindDeviceSaver(nanobind::module_& module);
void BindFlight(nanobind::module_& module);
void BindLeases(nanobind::module_& module);
void BindLivePlan(nanobind::module_& module);
void BindPage(nanobind::module_& module);
void BindParallelPlan(nanobind::module_& module);
void BindRankEnd(nanobind::module_& module);
void BindSession(nanobind::module_& module);
void BindSlotBook(nanobind::module_& module);
void BindSpeedCut(nanobind::module_& module);
void BindStoragePlace(nanobind::module_& module);
void BindStored(nanobind::module_& module);
void BindTables(nanobind::module_& module);

// Sets the Python exception for a failure, and throws nanobind::python_error, which says that one
// is set. The exception is an OSError if the system refused something, else a RuntimeError. Call it
// only inside a binding.
[[noreturn]] void Raise(const Failure& failure);

template <typename T>
T ValueOrRaise(Result<T> result) {
  if (!result.ok()) Raise(result.failure());
  return std::move(*result);
}

inline void RaiseIfFailed(const Result<void>& result) {
  if (!result.ok()) Raise(result.failure());
}

}  // namespace paceline::bindings
