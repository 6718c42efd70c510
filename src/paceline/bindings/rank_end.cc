// _native.prepare_end: how a forked rank ends.
//
// quiet: A fork's inherited Python objects are frozen for the garbage collector: collecting them at
// the end would cost a second of CPU in every rank. Libraries built with nanobind (triton, for one)
// then find their types still alive and print pages of leaks to stderr. They do so in functions
// given to Py_AtExit, which run in the reverse order of their registration. So a function that is
// registered after theirs redirects stderr, and one that is registered before theirs restores it.
//
// quick: After Python has ended in order, exit() destroys the static variables of C++ libraries.
// For torch that costs 0.3 s of CPU and 100 MB of copied pages in every rank, and the agent learns
// of the rank's end only afterwards. The kernel frees all that memory anyway, so our exit handler
// ends the process; multiprocessing ends its forks by _exit for the same reason. Exit handlers run
// in the reverse order of their registration, so those of libraries that the script has loaded
// itself run before ours.
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
