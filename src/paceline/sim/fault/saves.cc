#include <algorithm>
#include <iterator>
#include <vector>

#include "paceline/base/mark.h"
#include "paceline/sim/fault/all.h"
#include "paceline/sim/fault/pick.h"

namespace paceline::sim {

namespace {

// A short time, or one in which ranks have to wait for their saves.
Duration DrawTrouble(Prng& prng) {
  return prng.Chance(1, 2) ? Draw(prng, Duration::Milliseconds(50), Duration::Seconds(2))
                           : Draw(prng, Duration::Seconds(2), Duration::Seconds(25));
}

void TroubleFor(SimWorld& world, Prng& prng, bool Storage::*trouble) {
  world.storage().*trouble = true;
  world.queue().After(DrawTrouble(prng), [&world, trouble] { world.storage().*trouble = false; });
}

// A file of a folder, preferably of a complete one or of one being written.
SimShard* PickShard(SimWorld& world, Prng& prng, std::string* name, uint32_t* rank) {
  Storage::Folders& folders = world.storage().folders();
  if (folders.empty()) return nullptr;
  auto folder = folders.find(world.storage().latest());
  if (folder == folders.end() || prng.Chance(1, 2)) {
    folder = std::max_element(folders.begin(), folders.end(), [](const auto& a, const auto& b) {
      return a.second.changed < b.second.changed;
    });
  }
  auto& files = folder->second.files;
  if (files.empty()) return nullptr;
  const auto file = std::next(files.begin(), static_cast<std::ptrdiff_t>(prng.Below(files.size())));
  *name = folder->first;
  *rank = file->first;
  return &file->second;
}

}  // namespace

void WriterDiesSaving(SimWorld& world, Prng& prng) {
  const RankProcess* process = PickProcess(world, prng);
  if (process == nullptr) return;
  const Instant at = world.workload().MiddleOfNextSave(*process);
  if (at.is_max()) return;
  Node& node = world.node(process->node);
  world.queue().At(at, [&node, pid = process->pid] { node.EndRank(pid, Killed(SIGKILL)); });
}

void FlippedImage(SimWorld& world, Prng& prng) {
  Node* node = PickNode(world, prng, IsRunning);
  if (node == nullptr || node->shelf().all().empty()) return;
  world.SyncSaves(*node);
  auto& arenas = node->shelf().all();
  const auto arena =
      std::next(arenas.begin(), static_cast<std::ptrdiff_t>(prng.Below(arenas.size())));
  const std::string& home = arena->first.node;
  if (!arena->second.Flip(prng.Next())) return;
  // In half of the cases the image's owner loses a rank. Otherwise no process would read the image
  // before it is overwritten.
  if (!prng.Chance(1, 2)) return;
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    Node& owner = world.node(i);
    if (owner.name() != home || owner.processes().empty()) continue;
    owner.EndRank(owner.processes().begin()->first, Killed(SIGKILL));
    return;
  }
}

// A node that is sending an image to another host dies: its agent alone, or the whole host.
void GiverDies(SimWorld& world, Prng& prng) {
  std::vector<Node*> givers;
  for (uint32_t i = 0; i < world.node_count(); ++i) {
    AgentHost* taker = world.node(i).agent();
    Node* giver = taker == nullptr ? nullptr : taker->station().peers().giver();
    if (giver != nullptr && giver->is_on()) givers.push_back(giver);
  }
  if (givers.empty()) return;
  Node* giver = givers[prng.Below(givers.size())];
  MARK("a giver dies");
  if (prng.Chance(1, 3)) return giver->KillAgent();
  giver->PowerOff(true);
  if (prng.Chance(1, 3)) return;  // it stays off until the end
  world.queue().After(Draw(prng, Duration::Seconds(1), Duration::Seconds(30)),
                      [giver] { giver->PowerOn(); });
}

void FullStorage(SimWorld& world, Prng& prng) { TroubleFor(world, prng, &Storage::is_full); }
void StalledStorage(SimWorld& world, Prng& prng) { TroubleFor(world, prng, &Storage::is_stalled); }
void StorageOutage(SimWorld& world, Prng& prng) { TroubleFor(world, prng, &Storage::is_away); }

void TornShard(SimWorld& world, Prng& prng) {
  std::string name;
  uint32_t rank = 0;
  SimShard* shard = PickShard(world, prng, &name, &rank);
  if (shard == nullptr) return;
  const bool is_torn = prng.Chance(1, 2);
  world.storage().Hurt(name, /*is_visible=*/is_torn);
  if (is_torn) {
    shard->is_whole = false;
  } else {
    shard->image.is_flipped = true;
  }
}

void LostShard(SimWorld& world, Prng& prng) {
  std::string name;
  uint32_t rank = 0;
  if (PickShard(world, prng, &name, &rank) == nullptr) return;
  world.storage().Hurt(name, /*is_visible=*/true);
  world.storage().folders().at(name).files.erase(rank);
}

// A rank is taken for dead and its world ends. Later the rank saves one more step.
void ZombieSave(SimWorld& world, Prng& prng) {
  const RankProcess* process = PickProcess(world, prng);
  if (process == nullptr) return;
  Node& node = world.node(process->node);
  const RankProcess zombie = *process;
  const int64_t step = world.workload().StepOf(zombie.generation) + prng.Between(1, 3);
  const uint64_t boot = node.boot_count();
  node.EndRank(zombie.pid, Killed(SIGKILL));
  const Duration wait = Draw(prng, Duration::Milliseconds(100), Duration::Seconds(5));
  world.queue().After(wait, [&world, &node, zombie, step, boot] {
    if (!node.is_on() || node.boot_count() != boot) return;
    // If another process saves there now, that process has the lock.
    for (uint32_t i = 0; i < world.node_count(); ++i) {
      if (world.node(i).name() != node.name()) continue;
      for (const auto& [pid, process] : world.node(i).processes()) {
        if (process.rank == zombie.rank) return;
      }
    }
    SimArena* arena = node.shelf().Find({node.name(), static_cast<uint32_t>(zombie.rank.value())});
    if (arena == nullptr) return;
    const SavedStep saved = world.workload().NameOf(zombie.generation, step);
    const std::optional<uint32_t> slot = arena->Begin(saved);
    if (!slot.has_value()) return;
    arena->Seal(*slot, {.rank = static_cast<uint32_t>(zombie.rank.value()),
                        .saved = saved,
                        .world_size = zombie.world_size,
                        .content = MixContent(zombie.generation.value(), 0x20b1e),
                        .is_zombies = true});
    world.trace().Add(world.queue().now(), node.name(), "zombie_save", static_cast<uint64_t>(step));
  });
}

}  // namespace paceline::sim
