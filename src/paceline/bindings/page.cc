// _native.read_page: a progress page as plain Python values, and format_page, which makes one.
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "paceline/bindings/bindings.h"
#include "paceline/client/page_file.h"

namespace paceline::bindings {
namespace {

nanobind::dict SlotDict(const SlotReading& slot) {
  nanobind::dict out;
  out["attempt"] = slot.attempt;
  out["generation"] = slot.generation;
  out["rank"] = slot.rank;
  out["local_rank"] = slot.local_rank;
  out["pid"] = slot.pid;
  out["start_time"] = slot.start_time_ticks;
  out["spawn_monotonic_ns"] = slot.spawn_monotonic_ns;
  out["how"] = static_cast<uint32_t>(slot.how);
  out["state"] = static_cast<uint32_t>(slot.state);
  out["wait_status"] =
      slot.wait_status ? nanobind::cast(*slot.wait_status) : nanobind::object(nanobind::none());
  out["exit_monotonic_ns"] = slot.exit_monotonic_ns;
  out["maxrss_kib"] = slot.maxrss_kib;
  out["step_count"] = slot.step_count;
  out["step"] = slot.step;
  out["last_step_monotonic_ns"] = slot.last_step_monotonic_ns;
  out["loss"] = slot.loss;
  out["saved_step"] = slot.saved_step;
  out["saved_files"] = slot.saved_files;
  out["steps_total"] = slot.steps_total;
  out["flags"] = slot.flags;
  out["entered_monotonic_ns"] = slot.entered_monotonic_ns;
  out["first_step_monotonic_ns"] = slot.first_step_monotonic_ns;
  out["error_monotonic_ns"] = slot.error_monotonic_ns;
  out["port_taken"] = slot.port_taken;
  return out;
}

// Returns the page as a dict. `slots` has a dict for each slot, or None for a slot that is being
// prepared.
nanobind::dict ReadPage(const std::string& path) {
  const client::PageFile page =
      ValueOrRaise(client::PageFile::Open(path, client::PageAccess::kRead));
  const PageHeader& header = page.header();
  nanobind::dict out;
  out["job"] = std::string(PageText(header.job_id));
  out["node"] = std::string(PageText(header.node));
  out["boot_id"] = std::string(PageText(header.boot_id));
  nanobind::list slots;
  for (uint32_t i = 0; i < header.slot_count; ++i) {
    const auto slot = ReadSlot(SlotOf(header, i));
    slots.append(slot ? nanobind::object(SlotDict(*slot)) : nanobind::none());
  }
  out["slots"] = slots;
  return out;
}

// The bytes of a new page, for tests and tools that take the agent's place in Python.
nanobind::bytes FormatPageBytes(const std::string& job, const std::string& node,
                                const std::string& boot_id, uint32_t slot_count) {
  if (slot_count < 1 || slot_count > kPageSlotsMax) {
    throw nanobind::value_error("a page has 1 to 64 slots");
  }
  struct alignas(64) Block {
    std::byte bytes[kPageSlotBytes];
  };
  std::vector<Block> blocks(PageBytes(slot_count) / kPageSlotBytes);
  const auto memory = std::as_writable_bytes(std::span(blocks));
  const PageIdentity identity{.job_id = job,
                              .node = node,
                              .boot_id = boot_id,
                              .slot_count = slot_count,
                              .created_monotonic_ns = client::MonotonicNanoseconds()};
  if (!FormatPage(memory, identity)) {
    throw nanobind::value_error("a name is too long for a progress page");
  }
  return nanobind::bytes(reinterpret_cast<const char*>(memory.data()), memory.size());
}

}  // namespace

void BindPage(nanobind::module_& module) {
  module.def("read_page", &ReadPage, nanobind::arg("path"));
  module.def("format_page", &FormatPageBytes, nanobind::arg("job"), nanobind::arg("node"),
             nanobind::arg("boot_id"), nanobind::arg("slot_count"));
}

}  // namespace paceline::bindings
