#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

namespace {

void WorsenFor(SimWorld& world, Prng& prng, LinkQuality link) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
  if (node == nullptr) return;
  const HostIndex host = node->host();
  world.network().SetLink(host, link);
  world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(20)),
                      [&world, host] { world.network().ResetLink(host); });
}

}  // namespace

void PacketLoss(SimWorld& world, Prng& prng) {
  LinkQuality link = world.options().link;
  link.loss_permille = static_cast<uint32_t>(prng.Between(10, 500));
  WorsenFor(world, prng, link);
}

void Duplicates(SimWorld& world, Prng& prng) {
  LinkQuality link = world.options().link;
  link.duplicate_permille = static_cast<uint32_t>(prng.Between(10, 500));
  WorsenFor(world, prng, link);
}

void Reordering(SimWorld& world, Prng& prng) {
  LinkQuality link = world.options().link;
  link.reorder_permille = static_cast<uint32_t>(prng.Between(10, 500));
  WorsenFor(world, prng, link);
}

void SlowLink(SimWorld& world, Prng& prng) {
  LinkQuality link = world.options().link;
  link.latency_min = Draw(prng, Duration::Milliseconds(10), Duration::Milliseconds(500));
  link.latency_max = link.latency_min * 2;
  WorsenFor(world, prng, link);
}

}  // namespace paceline::sim
