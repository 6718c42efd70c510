// _native.EpochOrder, BatchCut and Mixture: which rank reads which samples in which step, in plain
// numbers.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "paceline/bindings/bindings.h"
#include "paceline/data/batch_cut.h"
#include "paceline/data/epoch_order.h"
#include "paceline/data/mixture.h"

namespace paceline::bindings {
namespace {

using Range = std::pair<uint64_t, uint64_t>;

// The value, or a ValueError with the failure's message. Python has checked the user's arguments
// before.
template <typename T>
T ValueOrValueError(Result<T> result) {
  if (!result.ok()) throw nanobind::value_error(result.failure().message.c_str());
  return std::move(*result);
}

void Demand(bool condition, const char* why) {
  if (!condition) throw nanobind::value_error(why);
}

Shuffle ShuffleNamed(const std::string& name) {
  if (name == "none") return Shuffle::kNone;
  if (name == "whole") return Shuffle::kWhole;
  Demand(name == "blocked", "an order is none, whole or blocked");
  return Shuffle::kBlocked;
}

void BindOrder(nanobind::module_& module) {
  nanobind::class_<EpochOrder>(module, "EpochOrder")
      .def(
          "__init__",
          [](EpochOrder* self, uint64_t samples, uint64_t seed, uint64_t epoch,
             const std::string& shuffle, uint64_t block, uint64_t window) {
            new (self) EpochOrder(ValueOrValueError(EpochOrder::Make({
                .samples = samples,
                .seed = seed,
                .epoch = epoch,
                .shuffle = ShuffleNamed(shuffle),
                .block = block,
                .window = window,
            })));
          },
          nanobind::arg("samples"), nanobind::arg("seed"), nanobind::arg("epoch"),
          nanobind::arg("shuffle") = "whole", nanobind::arg("block") = 0,
          nanobind::arg("window") = 0)
      .def(
          "sample_at",
          [](const EpochOrder& order, uint64_t ordinal) {
            Demand(ordinal < order.spec().samples, "an ordinal beyond the epoch");
            return order.SampleAt(ordinal);
          },
          nanobind::arg("ordinal"))
      .def(
          "ordinal_of",
          [](const EpochOrder& order, uint64_t sample) {
            Demand(sample < order.spec().samples, "a sample beyond the data set");
            return order.OrdinalOf(sample);
          },
          nanobind::arg("sample"))
      .def(
          "samples",
          [](const EpochOrder& order, uint64_t begin, uint64_t end) {
            Demand(begin <= end && end <= order.spec().samples, "ordinals beyond the epoch");
            return order.SamplesAt({begin, end});
          },
          nanobind::arg("begin"), nanobind::arg("end"));
}

Range AsPair(OrdinalRange range) { return {range.begin, range.end}; }

void BindCut(nanobind::module_& module) {
  nanobind::class_<BatchCut>(module, "BatchCut")
      .def(
          "__init__",
          [](BatchCut* self, uint64_t samples, uint64_t global_batch, uint64_t world_size,
             uint64_t micro_batch, bool drop_last, bool even_steps) {
            new (self) BatchCut(ValueOrValueError(BatchCut::Make({
                .samples = samples,
                .global_batch = global_batch,
                .world_size = world_size,
                .micro_batch = micro_batch,
                .drop_last = drop_last,
                .even_steps = even_steps,
            })));
          },
          nanobind::arg("samples"), nanobind::arg("global_batch"), nanobind::arg("world_size"),
          nanobind::arg("micro_batch"), nanobind::arg("drop_last"), nanobind::arg("even_steps"))
      .def(
          "check_from",
          [](const BatchCut& cut, uint64_t consumed) {
            const Result<void> checked = cut.CheckFrom(consumed);
            if (!checked.ok()) throw nanobind::value_error(checked.failure().message.c_str());
          },
          nanobind::arg("consumed"))
      .def("steps_from", &BatchCut::StepsFrom, nanobind::arg("consumed"))
      .def(
          "step_at",
          [](const BatchCut& cut, uint64_t consumed) { return AsPair(cut.StepAt(consumed)); },
          nanobind::arg("consumed"))
      .def(
          "parts_of",
          [](const BatchCut& cut, uint64_t begin, uint64_t end) {
            return cut.PartsOf({begin, end});
          },
          nanobind::arg("begin"), nanobind::arg("end"));
  module.def(
      "cut_evenly",
      [](uint64_t begin, uint64_t end, uint64_t number, uint64_t of) {
        Demand(begin <= end && number < of, "no such part");
        return AsPair(CutEvenly({begin, end}, {.number = number, .of = of}));
      },
      nanobind::arg("begin"), nanobind::arg("end"), nanobind::arg("number"), nanobind::arg("of"));
}

void BindMixture(nanobind::module_& module) {
  nanobind::class_<Mixture>(module, "Mixture")
      .def(
          "__init__",
          [](Mixture* self, std::vector<uint64_t> weights, uint64_t seed) {
            new (self) Mixture(
                ValueOrValueError(Mixture::Make({.weights = std::move(weights), .seed = seed})));
          },
          nanobind::arg("weights"), nanobind::arg("seed"))
      .def_prop_ro("period", &Mixture::period)
      .def(
          "at",
          [](const Mixture& mixture, uint64_t place) {
            const Draw draw = mixture.At(place);
            return std::pair(draw.set, draw.draw);
          },
          nanobind::arg("place"))
      .def(
          "place_of",
          [](const Mixture& mixture, uint64_t member, uint64_t draw) {
            Demand(member < mixture.sets(), "no such data set in the mixture");
            return mixture.PlaceOf({.set = member, .draw = draw});
          },
          nanobind::arg("member"), nanobind::arg("draw"));
}

}  // namespace

void BindDataOrder(nanobind::module_& module) {
  BindOrder(module);
  BindCut(module);
  BindMixture(module);
}

}  // namespace paceline::bindings
