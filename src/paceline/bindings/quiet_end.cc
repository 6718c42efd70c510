// _native.quiet_end: a forked rank ends without false leak reports.
//
// A fork's inherited Python objects are frozen for the garbage collector: collecting them at the
// end would cost a second of CPU in every rank. Libraries built with nanobind (triton, for one)
// then find their types still alive and print pages of leaks to stderr. They do so in functions
// given to Py_AtExit, which run in the reverse order of their registration. So stderr is put aside
// by a function registered after theirs and put back by one registered before.
#include <fcntl.h>
#include <unistd.h>

#include "paceline/bindings/bindings.h"

namespace paceline::bindings {
namespace {

int stderr_aside = -1;

void PutAside() {
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null < 0) return;
  stderr_aside = dup(2);
  dup2(null, 2);
  close(null);
}

void PutBack() {
  if (stderr_aside < 0) return;
  dup2(stderr_aside, 2);
  close(stderr_aside);
  stderr_aside = -1;
}

}  // namespace

void BindQuietEnd(nanobind::module_& module) {
  Py_AtExit(PutBack);
  module.def("quiet_end", [] { Py_AtExit(PutAside); });
}

}  // namespace paceline::bindings
