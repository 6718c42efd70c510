// _native.prepare_end: how a forked rank ends.
//
// quiet: A fork's inherited Python objects are frozen for the garbage collector: collecting them at
// the end would cost a second of CPU in every rank. Libraries built with nanobind (triton, for one)
// then find their types still alive and print pages of leaks to stderr. They do so in functions
// given to Py_AtExit, which run in the reverse order of their registration. So stderr is put aside
// by a function registered after theirs and put back by one registered before.
//
// quick: After Python's orderly end, exit() takes down what C++ libraries hold in static variables:
// 0.3 s of CPU and 100 MB of copied pages for torch, in every rank, and its agent learns of the end
// only then. A fork has nothing to give back there that the kernel does not take; multiprocessing
// ends its forks by _exit for the same reason. Handlers of exit() run in the reverse order, too:
// those of libraries that the script has loaded itself have run when ours ends the process.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

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

void EndAtOnce(int status, void*) {
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace

void BindRankEnd(nanobind::module_& module) {
  Py_AtExit(PutBack);
  module.def(
      "prepare_end",
      [](bool is_quick) {
        Py_AtExit(PutAside);
        if (is_quick) on_exit(EndAtOnce, nullptr);
      },
      nanobind::kw_only(), nanobind::arg("is_quick"));
}

}  // namespace paceline::bindings
