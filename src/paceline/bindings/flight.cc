// _native.FlightWriter: a rank's side of its flight ring; and read_ring, the ring as Python values.
#include "paceline/client/flight_writer.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <string>
#include <vector>

#include "paceline/bindings/bindings.h"

namespace paceline::bindings {
namespace {

nanobind::dict EntryDict(const FlightEntry& entry) {
  nanobind::dict out;
  out["kind"] = static_cast<uint32_t>(entry.kind);
  out["group"] = entry.group;
  out["operation"] = entry.operation;
  out["dtype"] = entry.dtype;
  out["site"] = entry.site;
  out["sequence"] = entry.sequence;
  out["bytes"] = entry.bytes;
  out["begun_ns"] = entry.begun_ns;
  out["completed_ns"] = entry.completed_ns;
  return out;
}

nanobind::dict RingDict(nanobind::bytes text) {
  std::vector<uint64_t> aligned(text.size() / 8 + 1);
  std::memcpy(aligned.data(), text.data(), text.size());
  std::string_view why;
  const auto reading = ReadRing(std::as_bytes(std::span(aligned)).subspan(0, text.size()), &why);
  if (!reading.has_value()) throw nanobind::value_error(std::string(why).c_str());
  nanobind::dict out;
  out["generation"] = reading->pulse.generation;
  out["rank"] = reading->pulse.rank;
  out["writer_pid"] = reading->writer_pid;
  out["phase"] = std::string(PhaseName(reading->pulse.phase));
  out["open"] = reading->pulse.open;
  const StepSums& sums = reading->pulse.sums;
  out["steps"] = sums.steps;
  out["whole_ns"] = sums.whole.nanoseconds();
  out["own_ns"] = sums.own.nanoseconds();
  out["data_ns"] = sums.data.nanoseconds();
  out["waited_ns"] = sums.waited.nanoseconds();
  if (const auto& spent = reading->pulse.spent; spent.has_value()) {
    nanobind::dict by_phase;
    for (uint32_t i = 0; i < kRankPhases; ++i) {
      const std::string name(PhaseName(static_cast<RankPhase>(i)));
      by_phase[name.c_str()] = spent->of[i].nanoseconds();
    }
    out["spent_ns"] = by_phase;
  }
  nanobind::list entries;
  for (const FlightEntry& entry : reading->entries) entries.append(EntryDict(entry));
  out["entries"] = entries;
  return out;
}

}  // namespace

void BindFlight(nanobind::module_& module) {
  using client::FlightWriter;
  nanobind::class_<FlightWriter>(module, "FlightWriter")
      .def_static(
          "make",
          [](std::string path, uint64_t generation, int64_t rank) {
            return ValueOrRaise(FlightWriter::Make(
                {.path = std::move(path), .generation = generation, .rank = rank}));
          },
          nanobind::arg("path"), nanobind::arg("generation"), nanobind::arg("rank"))
      .def("name", &FlightWriter::Name, nanobind::arg("text"))
      .def(
          "begin",
          [](FlightWriter& writer, uint32_t group, uint32_t operation, uint32_t dtype,
             uint32_t site, uint64_t sequence, uint64_t bytes) {
            const auto kind = sequence == 0 ? FlightKind::kPointToPoint : FlightKind::kCollective;
            return writer.Begin({kind, group, operation, dtype, site, sequence, bytes});
          },
          nanobind::arg("group"), nanobind::arg("operation"), nanobind::arg("dtype"),
          nanobind::arg("site"), nanobind::arg("sequence"), nanobind::arg("size"))
      .def("complete", &FlightWriter::Complete, nanobind::arg("number"))
      .def(
          "turn",
          [](FlightWriter& writer, uint32_t phase, uint32_t site) {
            writer.Turn(static_cast<RankPhase>(phase < kRankPhases
                                                   ? phase
                                                   : static_cast<uint32_t>(RankPhase::kUnknown)),
                        site);
          },
          nanobind::arg("phase"), nanobind::arg("site") = kRingNoName)
      .def("step", &FlightWriter::Step, nanobind::arg("made") = 1)
      .def("waited", &FlightWriter::Waited, nanobind::arg("since_ns"))
      .def("leave", &FlightWriter::Leave);
  module.def("read_ring", &RingDict, nanobind::arg("content"));
}

}  // namespace paceline::bindings
