// _native.judge_place: whether a text names a directory or an object store; the same function as
// the agent's.
#include <nanobind/stl/string.h>

#include "paceline/bindings/bindings.h"
#include "paceline/model/storage_place.h"

namespace paceline::bindings {

void BindStoragePlace(nanobind::module_& module) {
  namespace nb = nanobind;
  nb::class_<StoragePlace>(module, "StoragePlace")
      .def_ro("text", &StoragePlace::text)
      .def_ro("bucket", &StoragePlace::bucket)
      .def_ro("problem", &StoragePlace::problem)
      .def_ro("fix", &StoragePlace::fix);
  module.def(
      "judge_place", [](const std::string& given) { return JudgePlace(given); }, nb::arg("given"));
}

}  // namespace paceline::bindings
