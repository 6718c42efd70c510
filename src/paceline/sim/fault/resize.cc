#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

// Sometimes twice in a short time, and sometimes to a size that the job cannot have.
void Resize(SimWorld& world, Prng& prng) {
  const JobSpec& spec = world.options().spec;
  const auto draw = [&] {
    const auto nodes = static_cast<uint32_t>(prng.Between(spec.nodes_min, spec.nodes_max));
    return core::SizeRequested{.nodes = prng.Chance(1, 8)
                                            ? nodes + spec.unit
                                            : (nodes + spec.unit - 1) / spec.unit * spec.unit,
                               .at_once = prng.Chance(1, 4),
                               .why = "paceline scale was typed"};
  };
  world.RequestSize(draw());
  if (!prng.Chance(1, 3)) return;
  world.queue().After(Draw(prng, Duration::Milliseconds(1), Duration::Seconds(5)),
                      [&world, again = draw()] { world.RequestSize(again); });
}

}  // namespace paceline::sim
