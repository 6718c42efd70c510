// _native.LeaseReader: a process's leases on a data set. Calls that wait release the interpreter
// lock.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>

#include "paceline/bindings/bindings.h"
#include "paceline/client/lease_reader.h"

namespace paceline::bindings {
namespace {

using client::LeaseReader;

// (what, lease, begin, end, text)
using Taken = std::tuple<std::string, uint64_t, uint64_t, uint64_t, std::string>;

std::string NameOf(LeaseReader::What what) {
  switch (what) {
    case LeaseReader::What::kLease: return "lease";
    case LeaseReader::What::kWait: return "wait";
    case LeaseReader::What::kComplete: return "complete";
    case LeaseReader::What::kRefused: return "refused";
    case LeaseReader::What::kFenced: return "fenced";
    case LeaseReader::What::kTimeout: return "timeout";
  }
  return "";
}

Taken ToTuple(const LeaseReader::Taken& taken) {
  return {NameOf(taken.what), taken.lease, taken.range.begin, taken.range.end, taken.text};
}

Duration Seconds(double seconds) {
  return Duration::Nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

using Release = nanobind::call_guard<nanobind::gil_scoped_release>;

void BindOpen(nanobind::module_& module) {
  nanobind::class_<LeaseOpen>(module, "LeaseOpen")
      .def(nanobind::init<>())
      .def_rw("name", &LeaseOpen::name)
      .def_rw("terms", &LeaseOpen::terms)
      .def_rw("ordinals", &LeaseOpen::ordinals)
      .def_rw("rank", &LeaseOpen::rank)
      .def_rw("world_size", &LeaseOpen::world_size)
      .def_rw("generation", &LeaseOpen::generation)
      .def_rw("incarnation", &LeaseOpen::incarnation)
      .def_rw("lease_min", &LeaseOpen::lease_min)
      .def_rw("lease_max", &LeaseOpen::lease_max)
      .def_rw("lease_first", &LeaseOpen::lease_first)
      .def_rw("lease_ms", &LeaseOpen::lease_ms)
      .def_rw("deadline_ms", &LeaseOpen::deadline_ms)
      .def_rw("failures_max", &LeaseOpen::failures_max)
      .def_rw("follows_checkpoints", &LeaseOpen::follows_checkpoints)
      .def_rw("is_even", &LeaseOpen::is_even)
      .def_rw("is_stream", &LeaseOpen::is_stream)
      .def_rw("unit", &LeaseOpen::unit)
      .def_rw("epoch", &LeaseOpen::epoch);
}

void BindStreams(nanobind::class_<LeaseReader>& reader) {
  reader
      .def(
          "known",
          [](LeaseReader& reader, double timeout) {
            return ToTuple(reader.Known(Seconds(timeout)));
          },
          nanobind::arg("timeout"), Release())
      .def("found", &LeaseReader::Found, nanobind::arg("name"), nanobind::arg("base"),
           nanobind::arg("records"), Release())
      .def(
          "gap",
          [](LeaseReader& reader, uint64_t lease, uint64_t begin, uint64_t end, bool is_refused,
             const std::string& why) {
            reader.Gap(lease, {begin, end}, is_refused, why);
          },
          nanobind::arg("lease"), nanobind::arg("begin"), nanobind::arg("end"),
          nanobind::arg("is_refused"), nanobind::arg("why"), Release())
      .def("seen", &LeaseReader::Seen, nanobind::arg("lease"), nanobind::arg("end"), Release())
      .def("touch", &LeaseReader::Touch, Release())
      .def("recalled", &LeaseReader::Recalled, Release())
      .def("holds", &LeaseReader::Holds, nanobind::arg("lease"), Release())
      .def("give_back", &LeaseReader::GiveBack, nanobind::arg("lease"), Release());
}

}  // namespace

void BindLeases(nanobind::module_& module) {
  BindOpen(module);
  nanobind::class_<LeaseReader> reader(module, "LeaseReader");
  BindStreams(reader);
  reader
      .def_static(
          "open",
          [](std::string socket, uint32_t ahead, LeaseOpen open) {
            return ValueOrRaise(LeaseReader::Open(
                {.open = std::move(open), .socket = std::move(socket), .ahead = ahead}));
          },
          nanobind::arg("socket"), nanobind::arg("ahead"), nanobind::arg("work"))
      .def(
          "take",
          [](LeaseReader& reader, double timeout, bool is_patient) {
            return ToTuple(reader.Take(Seconds(timeout), is_patient));
          },
          nanobind::arg("timeout"), nanobind::arg("is_patient"), Release())
      .def("ack", &LeaseReader::Ack, nanobind::arg("lease"), nanobind::arg("until"), Release())
      .def(
          "fail",
          [](LeaseReader& reader, uint64_t lease, uint64_t begin, uint64_t end) {
            reader.Fail(lease, {begin, end});
          },
          nanobind::arg("lease"), nanobind::arg("begin"), nanobind::arg("end"), Release())
      .def(
          "mark",
          [](LeaseReader& reader, uint64_t step, double timeout) {
            return ToTuple(reader.Mark(step, Seconds(timeout)));
          },
          nanobind::arg("step"), nanobind::arg("timeout"), Release())
      .def(
          "rewind",
          [](LeaseReader& reader, std::optional<std::string> position, double timeout) {
            return ToTuple(reader.Rewind(std::move(position), Seconds(timeout)));
          },
          nanobind::arg("position").none(), nanobind::arg("timeout"), Release())
      .def(
          "flush",
          [](LeaseReader& reader, double timeout) {
            return ToTuple(reader.Flush(Seconds(timeout)));
          },
          nanobind::arg("timeout"), Release())
      .def(
          "stand",
          [](LeaseReader& reader, double timeout) {
            return ToTuple(reader.Stand(Seconds(timeout)));
          },
          nanobind::arg("timeout"), Release())
      .def("position_text", &LeaseReader::PositionText, nanobind::arg("position"))
      .def("add_position", &LeaseReader::AddPosition, nanobind::arg("position"),
           nanobind::arg("ranges"))
      .def("close", &LeaseReader::Close, Release())
      .def_prop_ro("counters", [](LeaseReader& reader) {
        const LeaseReader::Counters counters = reader.counters();
        return std::tuple(counters.leases, counters.stale, counters.resets);
      });
}

}  // namespace paceline::bindings
