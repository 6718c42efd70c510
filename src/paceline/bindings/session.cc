// _native.Session: a rank's side of the progress page.
#include "paceline/client/session.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "paceline/bindings/bindings.h"

namespace paceline::bindings {

void BindSession(nanobind::module_& module) {
  using client::Session;
  nanobind::class_<Session>(module, "Session")
      .def_static(
          "open",
          [](std::string page, uint32_t slot, uint64_t generation) {
            return ValueOrRaise(Session::Open(
                {.page_path = std::move(page), .slot = slot, .generation = generation}));
          },
          nanobind::arg("page"), nanobind::arg("slot"), nanobind::arg("generation"))
      .def(
          "step", [](Session& session, int64_t step) { session.Step(step); }, nanobind::arg("step"))
      .def("step", &Session::Step, nanobind::arg("step"), nanobind::arg("loss").none(),
           nanobind::arg("grad_norm").none() = nanobind::none())
      .def("count_step", &Session::CountStep)
      .def("began_at", &Session::BeganAt, nanobind::arg("step"))
      .def("ends_at", &Session::EndsAt, nanobind::arg("steps"))
      .def("saved", &Session::Saved, nanobind::arg("step"))
      .def("file_saved", &Session::FileSaved)
      .def("entered", &Session::Entered)
      .def("hook_installed", &Session::HookInstalled)
      .def("shares_batch", &Session::SharesBatch)
      .def("failed", &Session::Failed)
      .def("port_taken", &Session::PortTaken)
      .def("lines_dropped", &Session::LinesDropped, nanobind::arg("count"))
      .def_prop_ro("last_step", [](const Session& session) { return session.step(); })
      .def_prop_ro("step_count", [](const Session& session) { return session.step_count(); });
}

}  // namespace paceline::bindings
