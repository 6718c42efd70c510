// _native.SpeedCut: how a step is cut among ranks of different speed, in plain numbers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "paceline/bindings/bindings.h"
#include "paceline/data/speed_cut.h"

namespace paceline::bindings {
namespace {

using Shares = std::vector<uint64_t>;
using Times = std::vector<std::pair<double, double>>;  // samples, seconds

constexpr uint64_t kStepMax = 1ull << 32;

std::vector<StepTime> AsTimes(const Times& by_rank) {
  std::vector<StepTime> times;
  for (const auto& [samples, seconds] : by_rank) times.push_back({samples, seconds});
  return times;
}

SpeedCut Made(SpeedCutSpec spec) {
  Result<SpeedCut> made = SpeedCut::Make(std::move(spec));
  if (!made.ok()) throw nanobind::value_error(made.failure().message.c_str());
  return std::move(*made);
}

Shares Scaled(const Shares& shares, uint64_t size, uint64_t least) {
  uint64_t whole = 0;
  for (const uint64_t share : shares) whole += std::min(share, kStepMax);
  if (whole == 0 || whole > kStepMax || size > kStepMax) {
    throw nanobind::value_error("shares of a step have 1 to 2^32 samples");
  }
  return ScaleShares(shares, size, least);
}

}  // namespace

void BindSpeedCut(nanobind::module_& module) {
  nanobind::class_<SpeedCut>(module, "SpeedCut")
      .def(
          "__init__",
          [](SpeedCut* self, uint64_t global_batch, uint64_t least, uint64_t most,
             double gain_least, Shares shares) {
            const uint64_t world_size = shares.size();
            new (self) SpeedCut(Made({.global_batch = global_batch,
                                      .world_size = world_size,
                                      .bounds = {.least = least, .most = most},
                                      .gain_least = gain_least,
                                      .shares = std::move(shares)}));
          },
          nanobind::arg("global_batch"), nanobind::arg("least"), nanobind::arg("most"),
          nanobind::arg("gain_least"), nanobind::arg("shares"))
      .def(
          "look",
          [](SpeedCut& cut, const Times& by_rank,
             uint64_t steps) -> std::optional<std::tuple<Shares, double, std::string>> {
            auto change = cut.Look(AsTimes(by_rank), steps);
            if (!change) return std::nullopt;
            return std::tuple(std::move(change->shares), change->gain, std::move(change->because));
          },
          nanobind::arg("by_rank"), nanobind::arg("steps"))
      .def(
          "switched", [](SpeedCut& cut, const Times& by_rank) { cut.Switched(AsTimes(by_rank)); },
          nanobind::arg("by_rank"))
      .def_prop_ro("shares", &SpeedCut::shares)
      .def_prop_ro("switch_seconds", &SpeedCut::switch_seconds);
  module.def("scale_shares", &Scaled, nanobind::arg("shares"), nanobind::arg("size"),
             nanobind::arg("least"));
}

}  // namespace paceline::bindings
