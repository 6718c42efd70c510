// _native.Layout, Saver, Image and Manifest: checkpoints as paceline._checkpoint uses them. Bytes
// are copied with the interpreter's lock released.
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "paceline/bindings/bindings.h"
#include "paceline/bindings/layout.h"
#include "paceline/bindings/live_plan.h"
#include "paceline/client/image_reader.h"
#include "paceline/client/saver.h"

namespace paceline::bindings {
namespace {

using client::ImageReader;
using client::Saver;

// key, type as safetensors names it, shape of the box, its offset in the tensor
using BoxTuple = std::tuple<std::string, std::string, std::vector<uint64_t>, std::vector<uint64_t>>;

Layout MakeLayout(const std::vector<BoxTuple>& boxes, const std::set<std::string>& frozen,
                  const std::vector<std::string>& loose) {
  std::vector<ckpt::TensorBox> all;
  std::map<std::string, size_t> index_of;
  for (const auto& [key, dtype, shape, offset] : boxes) {
    index_of.emplace(key, all.size());
    all.push_back({.key = key,
                   .dtype = ValueOrRaise(ckpt::DTypeOf(dtype)),
                   .shape = shape,
                   .offset = offset,
                   .is_frozen = frozen.contains(key)});
  }
  Layout layout{ValueOrRaise(ckpt::LayOut(std::move(all), ckpt::LooseMetadata(loose))), {}};
  for (const ckpt::TensorBox& box : layout.image.boxes) {
    layout.order.push_back(index_of.at(box.key));
  }
  return layout;
}

bool Save(Saver& saver, const Layout& layout, const LivePlan& plan, const nb::bytes& notes,
          const SavedStep& saved, uint64_t world_size, bool is_replica) {
  const std::vector<uintptr_t>& addresses = plan.addresses();
  if (addresses.size() != layout.order.size()) throw nb::value_error("an address for each box");
  std::vector<const void*> sources;
  sources.reserve(addresses.size());
  for (const size_t index : layout.order) {
    sources.push_back(reinterpret_cast<const void*>(addresses[index]));
  }
  const ckpt::SaveStep what{.saved = saved,
                            .world_size = world_size,
                            .is_replica = is_replica,
                            .notes = {notes.c_str(), notes.size()}};
  nb::gil_scoped_release release;
  Result<bool> is_saved = saver.Save(layout.image, sources, what);
  nb::gil_scoped_acquire acquire;
  return ValueOrRaise(std::move(is_saved));
}

nb::list BoxesOf(const ImageReader& image) {
  nb::list out;
  for (const ckpt::TensorBox& box : image.boxes()) {
    out.append(nb::make_tuple(box.key, std::string(ckpt::NameOf(box.dtype)), box.shape, box.offset,
                              box.bytes));
  }
  return out;
}

// address and size in bytes of the memory to write to
using Memory = std::tuple<uintptr_t, size_t>;
// index of a box, memory for all of it
using WholeTuple = std::tuple<size_t, Memory>;
// index of a box, begin in it, extent, memory of the target, its shape, begin in that
using Extents = std::vector<uint64_t>;
using PartTuple = std::tuple<size_t, Extents, Extents, Memory, Extents, Extents>;

std::span<std::byte> SpanOf(const Memory& memory) {
  const auto& [address, bytes] = memory;
  return {reinterpret_cast<std::byte*>(address), bytes};
}

void RestoreInto(ImageReader& image, const std::vector<WholeTuple>& wholes,
                 const std::vector<PartTuple>& parts) {
  const auto box = [&](size_t index) {
    if (index >= image.boxes().size()) throw nb::index_error("no such box");
    return image.boxes()[index];
  };
  std::vector<ckpt::Target> targets;
  targets.reserve(wholes.size() + parts.size());
  for (const auto& [index, memory] : wholes) targets.push_back({box(index), SpanOf(memory)});
  for (const auto& [index, from, extent, memory, shape, to] : parts) {
    targets.push_back({box(index), SpanOf(memory),
                       ckpt::Region{.from = from, .extent = extent, .shape = shape, .to = to}});
  }
  Result<void> restored;
  {
    nb::gil_scoped_release release;
    restored = image.Restore(std::move(targets));
  }
  // The caller described a tensor wrongly. This does not mean that the image is damaged.
  if (!restored.ok() && restored.failure().kind == FailureKind::kInvalid) {
    throw nb::value_error(restored.failure().message.c_str());
  }
  RaiseIfFailed(restored);
}

void BindSaving(nb::module_& module) {
  nb::class_<Layout>(module, "Layout")
      .def(
          "__init__",
          [](Layout* self, const std::vector<BoxTuple>& boxes, const std::set<std::string>& frozen,
             const std::vector<std::string>& loose) {
            new (self) Layout(MakeLayout(boxes, frozen, loose));
          },
          nb::arg("boxes"), nb::arg("frozen") = std::set<std::string>(),
          nb::arg("loose") = std::vector<std::string>())
      .def_prop_ro("file_bytes", [](const Layout& layout) { return layout.image.size; });

  nb::class_<Saver>(module, "Saver")
      .def_static(
          "open",
          [](const std::string& path, const std::string& job_id, const std::string& boot_id,
             uint32_t rank, uint64_t image_bytes, uint32_t slots) {
            Result<std::unique_ptr<Saver>> saver = [&] {
              nb::gil_scoped_release release;
              return Saver::Open(path, {job_id, boot_id, rank}, {image_bytes, slots});
            }();
            return ValueOrRaise(std::move(saver));
          },
          nb::arg("path"), nb::arg("job_id"), nb::arg("boot_id"), nb::arg("rank"),
          nb::arg("image_bytes"), nb::arg("slots"))
      .def("reserve",
           [](Saver& saver) {
             const Result<void> reserved = [&] {
               nb::gil_scoped_release release;
               return saver.Reserve();
             }();
             RaiseIfFailed(reserved);
           })
      .def("stop_reserving", &Saver::StopReserving)
      .def("give_back_unused", &Saver::GiveBackUnused, nb::arg("removes"))
      .def_prop_ro("reserved_slots", &Saver::reserved_slots)
      .def_prop_ro("image_bytes_max", &Saver::image_bytes_max)
      .def("save", &Save, nb::arg("layout"), nb::arg("plan"), nb::arg("notes"), nb::arg("saved"),
           nb::arg("world_size"), nb::arg("is_replica"));
}

void BindSavedStep(nb::module_& module) {
  nb::class_<SavedStep>(module, "SavedStep")
      .def(
          "__init__",
          [](SavedStep* self, uint64_t generation, uint64_t branch, int64_t step) {
            new (self) SavedStep{.generation = generation, .step = step, .branch = branch};
          },
          nb::arg("generation"), nb::arg("branch"), nb::arg("step"))
      .def_ro("generation", &SavedStep::generation)
      .def_ro("branch", &SavedStep::branch)
      .def_ro("step", &SavedStep::step);
}

void BindManifest(nb::module_& module) {
  nb::class_<ckpt::Manifest>(module, "Manifest")
      .def_static(
          "read",
          [](const std::string& folder) { return ValueOrRaise(ckpt::ReadManifest(folder)); },
          nb::arg("folder"))
      .def_ro("job_id", &ckpt::Manifest::job_id)
      .def_ro("generation", &ckpt::Manifest::generation)
      .def_ro("step", &ckpt::Manifest::step)
      .def_ro("branch", &ckpt::Manifest::branch)
      .def_ro("world_size", &ckpt::Manifest::world_size)
      .def_prop_ro("differing",
                   [](const ckpt::Manifest& manifest) {
                     std::vector<std::string> names = manifest.differing.parameters;
                     names.insert(names.end(), manifest.differing.others.begin(),
                                  manifest.differing.others.end());
                     return names;
                   })
      .def(
          "image",
          [](const ckpt::Manifest& manifest, const std::string& folder, uint32_t rank,
             const std::string& chunks) {
            return ValueOrRaise([&] {
              const nb::gil_scoped_release released;
              return ImageReader::Open(folder, manifest, rank, chunks);
            }());
          },
          nb::arg("folder"), nb::arg("rank"), nb::arg("chunks") = "")
      .def(
          "notes",
          [](const ckpt::Manifest& manifest, const std::string& folder, uint32_t rank) {
            const std::string text = ValueOrRaise(ImageReader::ReadNotes(folder, manifest, rank));
            return nb::bytes(text.data(), text.size());
          },
          nb::arg("folder"), nb::arg("rank"));
}

}  // namespace

void BindCheckpoint(nb::module_& module) {
  BindSavedStep(module);
  BindSaving(module);

  nb::class_<ImageReader>(module, "Image")
      .def_static(
          "in_memory",
          [](const std::string& path, const std::string& job_id, const std::string& boot_id,
             uint32_t rank, const SavedStep& saved) {
            return ValueOrRaise(ImageReader::Open({path, {job_id, boot_id, rank}, saved}));
          },
          nb::arg("path"), nb::arg("job_id"), nb::arg("boot_id"), nb::arg("rank"), nb::arg("saved"))
      .def_static(
          "on_disk",
          [](const std::string& folder, uint32_t rank) {
            return ValueOrRaise(ImageReader::OpenPart(folder, rank));
          },
          nb::arg("folder"), nb::arg("rank"))
      .def_prop_ro("notes",
                   [](ImageReader& image) {
                     const std::string notes = ValueOrRaise([&] {
                       const nb::gil_scoped_release released;
                       return image.Notes();
                     }());
                     return nb::bytes(notes.data(), notes.size());
                   })
      .def_prop_ro("bytes_read", &ImageReader::bytes_read)
      .def("boxes", &BoxesOf)
      .def("restore", &RestoreInto, nb::arg("wholes"), nb::arg("parts"));
  BindManifest(module);
}

}  // namespace paceline::bindings
