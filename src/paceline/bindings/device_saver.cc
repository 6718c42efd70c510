// _native.Device and DeviceSaver: saves of tensors that lie on a GPU.
#include "paceline/client/device_saver.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/bindings/bindings.h"
#include "paceline/bindings/layout.h"
#include "paceline/bindings/live_plan.h"
#include "paceline/client/cuda_device.h"

namespace paceline::bindings {
namespace {

using client::Device;
using client::DeviceSaver;
using client::DeviceSource;
using client::SourcePlace;

// `places` has a byte for each leaf of the plan: a SourcePlace.
std::vector<DeviceSource> SourcesOf(const Layout& layout, const LivePlan& plan,
                                    const nb::bytes& places) {
  const std::vector<uintptr_t>& addresses = plan.addresses();
  if (addresses.size() != layout.order.size() || places.size() != addresses.size()) {
    throw nb::value_error("an address and a place for each box");
  }
  std::vector<DeviceSource> sources;
  sources.reserve(addresses.size());
  for (const size_t index : layout.order) {
    const auto place = static_cast<uint8_t>(places.c_str()[index]);
    if (place > static_cast<uint8_t>(SourcePlace::kDeviceStepped)) throw nb::value_error("a place");
    sources.push_back({.address = reinterpret_cast<const void*>(addresses[index]),
                       .place = static_cast<SourcePlace>(place)});
  }
  return sources;
}

bool Begin(DeviceSaver& saver, const Layout& layout, const LivePlan& plan, const nb::bytes& places,
           const nb::bytes& notes, const SavedStep& saved, uint64_t world_size, bool is_replica,
           uint64_t stream) {
  const std::vector<DeviceSource> sources = SourcesOf(layout, plan, places);
  const ckpt::SaveStep what{.saved = saved,
                            .world_size = world_size,
                            .is_replica = is_replica,
                            .notes = {notes.c_str(), notes.size()}};
  Result<bool> begun = [&] {
    nb::gil_scoped_release release;
    return saver.Begin(layout.image, sources, what, stream);
  }();
  return ValueOrRaise(std::move(begun));
}

// Calls `work`, which waits for a device, without the interpreter lock, so that other threads run.
template <typename Work>
void Wait(const Work& work) {
  const Result<void> done = [&] {
    nb::gil_scoped_release release;
    return work();
  }();
  RaiseIfFailed(done);
}

}  // namespace

void BindDeviceSaver(nb::module_& module) {
  nb::class_<Device>(module, "Device")
      .def_static(
          "open_cuda",
          [](const std::string& library) { return ValueOrRaise(client::OpenCudaDevice(library)); },
          nb::arg("library"));

  nb::class_<DeviceSaver>(module, "DeviceSaver")
      .def(nb::init<client::Saver*, Device*>(), nb::arg("saver"), nb::arg("device"),
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def("reserve", [](DeviceSaver& saver) { Wait([&] { return saver.Reserve(); }); })
      .def("begin", &Begin, nb::arg("layout"), nb::arg("plan"), nb::arg("places"), nb::arg("notes"),
           nb::arg("saved"), nb::arg("world_size"), nb::arg("is_replica"), nb::arg("stream"))
      .def("finish", [](DeviceSaver& saver) { Wait([&] { return saver.Finish(); }); })
      .def("await_copied", [](DeviceSaver& saver) { Wait([&] { return saver.AwaitCopied(); }); })
      .def(
          "fence",
          [](DeviceSaver& saver, uint64_t stream) { Wait([&] { return saver.Fence(stream); }); },
          nb::arg("stream"));
}

}  // namespace paceline::bindings
