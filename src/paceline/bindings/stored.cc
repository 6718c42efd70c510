// _native: checkpoints in storage without an agent, as paceline.integrations writes and finds them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "paceline/bindings/bindings.h"
#include "paceline/bindings/layout.h"
#include "paceline/client/shard_file.h"

namespace paceline::bindings {
namespace {

namespace nb = nanobind;

// address and bytes of a tensor in this process
using Memory = std::tuple<uintptr_t, size_t>;

void WriteShard(const client::StoredPlace& place, uint32_t rank, const Layout& layout,
                const std::vector<Memory>& tensors, const nb::bytes& notes) {
  if (tensors.size() != layout.order.size()) throw nb::value_error("an address for each box");
  std::vector<const void*> sources;
  for (size_t i = 0; i < layout.order.size(); ++i) {
    const auto& [address, bytes] = tensors[layout.order[i]];
    if (bytes != layout.image.boxes[i].bytes) throw nb::value_error("a tensor of another size");
    sources.push_back(reinterpret_cast<const void*>(address));
  }
  const std::string_view text(notes.c_str(), notes.size());
  Result<void> written;
  {
    nb::gil_scoped_release release;
    written = client::WriteStoredShard(place, rank, layout.image, sources, text);
  }
  RaiseIfFailed(written);
}

}  // namespace

void BindStored(nb::module_& module) {
  module.def(
      "newest_checkpoint",
      [](const std::string& path) { return ValueOrRaise(client::FindStored(path)); },
      nb::arg("path"));
  module.def(
      "check_notes_size",
      [](const nb::bytes& text) {
        RaiseIfFailed(client::CheckNotesSize({text.c_str(), text.size()}));
      },
      nb::arg("text"));
  nb::class_<client::StoredPlace>(module, "StoredPlace")
      .def(
          "__init__",
          [](client::StoredPlace* self, const std::string& directory, const std::string& job_id,
             uint64_t generation, int64_t step) {
            new (self) client::StoredPlace{directory, job_id, generation, step};
          },
          nb::arg("directory"), nb::arg("job_id"), nb::arg("generation"), nb::arg("step"))
      .def_prop_ro("name", &client::FolderNameOf)
      .def("write", &WriteShard, nb::arg("rank"), nb::arg("layout"), nb::arg("tensors"),
           nb::arg("notes"))
      .def(
          "commit",
          [](const client::StoredPlace& place, uint32_t world_size) {
            nb::gil_scoped_release release;
            const Result<void> done = client::CommitStored(place, world_size);
            nb::gil_scoped_acquire acquire;
            RaiseIfFailed(done);
          },
          nb::arg("world_size"));
}

}  // namespace paceline::bindings
