// _native.SlotBook: the starter's side of the progress page.
#include "paceline/client/slot_book.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "paceline/bindings/bindings.h"

namespace paceline::bindings {

void BindSlotBook(nanobind::module_& module) {
  using client::SlotBook;
  nanobind::class_<SlotBook>(module, "SlotBook")
      .def_static(
          "open",
          [](const std::string& page, const std::string& job, const std::string& node) {
            return ValueOrRaise(SlotBook::Open(page, job, node));
          },
          nanobind::arg("page"), nanobind::arg("job"), nanobind::arg("node"))
      .def(
          "begin",
          [](SlotBook& book, uint32_t slot, uint64_t generation, int32_t rank, int32_t local_rank,
             uint32_t how) {
            return ValueOrRaise(book.Begin(slot, {.generation = generation,
                                                  .rank = rank,
                                                  .local_rank = local_rank,
                                                  .how = static_cast<SlotStart>(how)}));
          },
          nanobind::arg("slot"), nanobind::arg("generation"), nanobind::arg("rank"),
          nanobind::arg("local_rank"), nanobind::arg("how"))
      .def(
          "running",
          [](SlotBook& book, uint32_t slot, int64_t pid, uint64_t start_time) {
            RaiseIfFailed(book.Running(slot, {.pid = pid, .start_time_ticks = start_time}));
          },
          nanobind::arg("slot"), nanobind::arg("pid"), nanobind::arg("start_time"))
      .def(
          "vacate", [](SlotBook& book, uint32_t slot) { RaiseIfFailed(book.Vacate(slot)); },
          nanobind::arg("slot"))
      .def(
          "exited",
          [](SlotBook& book, uint32_t slot, int32_t wait_status, uint64_t maxrss_kib) {
            RaiseIfFailed(book.Exited(slot, wait_status, maxrss_kib));
          },
          nanobind::arg("slot"), nanobind::arg("wait_status"), nanobind::arg("maxrss_kib"))
      .def(
          "occupant",
          [](const SlotBook& book, uint32_t slot) {
            const client::SlotProcess process = ValueOrRaise(book.Occupant(slot));
            return std::pair(process.pid, process.start_time_ticks);
          },
          nanobind::arg("slot"));
}

}  // namespace paceline::bindings
