#include "paceline/bindings/live_plan.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "paceline/bindings/bindings.h"

namespace paceline::bindings {

void BindLivePlan(nb::module_& module) {
  nb::class_<LivePlan>(module, "LivePlan")
      .def(nb::init<const std::vector<LivePlan::Found>&,
                    const std::vector<std::tuple<nb::dict, nb::object, nb::object>>&,
                    const std::vector<std::tuple<nb::dict, size_t>>&>(),
           nb::arg("leaves"), nb::arg("links"), nb::arg("sizes"))
      .def("is_current", &LivePlan::IsCurrent);
}

}  // namespace paceline::bindings
