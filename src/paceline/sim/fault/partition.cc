#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

namespace {

struct Path {
  HostIndex from = 0;
  HostIndex to = 0;
};

void CutFor(SimWorld& world, const std::vector<Path>& paths, Duration time) {
  for (const Path& path : paths) world.network().Cut(path.from, path.to);
  world.queue().After(time, [&world, paths] {
    for (const Path& path : paths) world.network().Mend(path.from, path.to);
    world.workload().Refresh();
  });
}

Duration DrawTime(Prng& prng) {
  return prng.Chance(1, 3) ? Draw(prng, Duration::Milliseconds(100), Duration::Seconds(2))
                           : Draw(prng, Duration::Seconds(2), Duration::Seconds(30));
}

}  // namespace

void PartitionOneWay(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, [](const Node& n) { return n.is_on(); });
  if (node == nullptr) return;
  const bool is_deaf = prng.Chance(1, 2);
  const Path path = is_deaf ? Path{kMasterHost, node->host()} : Path{node->host(), kMasterHost};
  CutFor(world, {path}, DrawTime(prng));
}

// Some nodes, perhaps all, lose the master. Half of the time they also lose the other nodes.
void PartitionTwoWay(SimWorld& world, Prng& prng) {
  std::vector<HostIndex> far_side;
  std::vector<HostIndex> near_side = {kMasterHost};
  const uint64_t share = prng.Between(1, 4);
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    (prng.Chance(share, 4) ? far_side : near_side).push_back(world.node(i).host());
  }
  const bool cuts_peers = prng.Chance(1, 2);
  std::vector<Path> paths;
  for (HostIndex far_host : far_side) {
    for (HostIndex near_host : near_side) {
      if (near_host != kMasterHost && !cuts_peers) continue;
      paths.push_back({far_host, near_host});
      paths.push_back({near_host, far_host});
    }
  }
  CutFor(world, paths, DrawTime(prng));
}

}  // namespace paceline::sim
