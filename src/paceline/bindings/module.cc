// paceline._native: the parts of the client that Python needs. One short file a class.
#include <cerrno>

#include "paceline/bindings/bindings.h"

namespace paceline::bindings {

void Raise(const Failure& failure) {
  const bool is_away = failure.kind == FailureKind::kBusy && failure.error_number != 0;
  if (failure.kind == FailureKind::kSystem || failure.kind == FailureKind::kFull || is_away) {
    errno = failure.error_number;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, failure.message.c_str());
  } else if (failure.kind == FailureKind::kDamaged || failure.kind == FailureKind::kNotFound ||
             failure.kind == FailureKind::kInvalid) {
    // The exceptions for states of a checkpoint that the caller handles.
    PyErr_SetString(PyExc_LookupError, failure.message.c_str());
  } else {
    PyErr_SetString(PyExc_RuntimeError, failure.message.c_str());
  }
  throw nanobind::python_error();
}

}  // namespace paceline::bindings

NB_MODULE(_native, module) {
  // A rank's session lives until its process ends, so nanobind's report of leaks is turned off.
  nanobind::set_leak_warnings(false);
  paceline::bindings::BindCheckpoint(module);
  paceline::bindings::BindCommandLine(module);
  paceline::bindings::BindDataOrder(module);
  paceline::bindings::BindDeviceSaver(module);  // after the Saver, which is one of its arguments
  paceline::bindings::BindLeases(module);
  paceline::bindings::BindLivePlan(module);
  paceline::bindings::BindPage(module);
  paceline::bindings::BindParallelPlan(module);
  paceline::bindings::BindRankEnd(module);
  paceline::bindings::BindFlight(module);
  paceline::bindings::BindCallSites(module);
  paceline::bindings::BindCollectiveWorks(module);  // after the FlightWriter
  paceline::bindings::BindCollectives(module);      // after both
  paceline::bindings::BindSession(module);
  paceline::bindings::BindSlotBook(module);
  paceline::bindings::BindSpeedCut(module);
  paceline::bindings::BindStoragePlace(module);
  paceline::bindings::BindStored(module);
  paceline::bindings::BindTables(module);
}
