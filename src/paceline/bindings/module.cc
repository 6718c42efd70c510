// paceline._native: the parts of the client that Python needs. One short file a class.
#include <cerrno>

#include "paceline/bindings/bindings.h"

namespace paceline::bindings {

void Raise(const client::Failure& failure) {
  if (failure.kind == client::FailureKind::kSystem) {
    errno = failure.error_number;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, failure.message.c_str());
  } else {
    PyErr_SetString(PyExc_RuntimeError, failure.message.c_str());
  }
  throw nanobind::python_error();
}

}  // namespace paceline::bindings

NB_MODULE(_native, module) {
  // A rank's session lives until its process ends; that is no leak.
  nanobind::set_leak_warnings(false);
  paceline::bindings::BindCommandLine(module);
  paceline::bindings::BindPage(module);
  paceline::bindings::BindQuietEnd(module);
  paceline::bindings::BindSession(module);
  paceline::bindings::BindSlotBook(module);
}
