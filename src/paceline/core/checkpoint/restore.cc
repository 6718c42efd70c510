#include "paceline/core/checkpoint/restore.h"

#include <algorithm>
#include <string_view>

#include "paceline/base/mark.h"
#include "paceline/core/checkpoint/image_on_disk.h"

namespace paceline::core {
namespace {

// At most this many sources for one fetch.
constexpr size_t kSourcesPerFetchMax = 8;
// At most this many ranks are named in a sentence.
constexpr size_t kNamedMax = 3;

// True if the host still has an image that this rank saved in that world.
bool Remembers(const CheckpointReport& report, Rank rank, uint64_t generation) {
  for (const MemoryImage& image : report.images) {
    if (image.rank == rank && image.saved.generation == generation) return true;
  }
  return false;
}

// The images of one step, by holder.
struct Seen {
  struct Holder {
    NodeId node;
    FetchOrder::Source source;
    uint64_t root = 0;
  };
  std::map<Rank, uint64_t> root_of;  // of the file
  std::map<Rank, std::vector<Holder>> holders;
  uint32_t world_size = 0;
  bool is_replica = true;  // every image says so
  bool AreEqual() const {
    for (const auto& [rank, root] : root_of) {
      if (root != root_of.begin()->second) return false;
    }
    return true;
  }
};

bool Lists(const CheckpointReport& report, const MemoryImage& wanted) {
  return std::any_of(report.images.begin(), report.images.end(), [&](const MemoryImage& one) {
    return one.rank == wanted.rank && one.saved == wanted.saved && one.place == wanted.place &&
           one.is_copy == wanted.is_copy;
  });
}

// Nodes with equal files report the same list, so in a large job each list is read once.
void AddEqual(const Memories& memories, SavedStep saved, Seen* seen) {
  std::set<uint64_t> known;
  for (const auto& [node, report] : memories.reports) {
    for (const EqualFiles& equal : report.equal) {
      if (seen->root_of.size() >= seen->world_size) return;
      if (equal.saved != saved || !known.insert(equal.file_root).second) continue;
      for (const RankRun& run : equal.ranks) {
        for (uint32_t i = 0; i < run.count && run.first + i < seen->world_size; ++i) {
          const bool is_new = seen->root_of.emplace(Rank(run.first + i), equal.file_root).second;
          if (is_new) MARK("an equal file is known though its host is lost");
        }
      }
    }
  }
}

Seen Look(const Memories& memories, SavedStep saved) {
  Seen seen;
  std::map<std::string_view, const CheckpointReport*> owners;  // by place
  for (const auto& [node, report] : memories.reports) owners[report.place] = &report;
  for (const auto& [node, report] : memories.reports) {
    for (const MemoryImage& image : report.images) {
      if (image.saved != saved) continue;
      // Nodes of one host see the same memory, but the image's own node may have found it damaged.
      // Its report counts once it has reported for the same world.
      const auto owner = owners.find(image.place);
      const bool has_spoken =
          owner != owners.end() && owner->second->generation >= report.generation;
      if (has_spoken && !Lists(*owner->second, image)) {
        MARK("an image that its own node does not tell of");
        continue;
      }
      seen.root_of[image.rank] = image.file_root;
      seen.world_size = image.world_size;
      seen.is_replica = seen.is_replica && image.is_replica;
      const bool can_give = !report.address.empty() && !IsOnDisk(report, image) &&
                            !memories.unreachable.contains({image.rank, saved});
      if (!can_give) continue;
      seen.holders[image.rank].push_back(
          {node, {report.place, report.address, image.place, image.is_copy}, image.root});
    }
  }
  // Hashes of a lost host's images, taken when the step was replicated: by this master, or by an
  // earlier one that gave them to the remaining nodes.
  if (seen.root_of.empty()) return seen;
  const auto known = memories.roots.find(saved);
  if (known != memories.roots.end()) {
    seen.root_of.insert(known->second.begin(), known->second.end());
  }
  AddEqual(memories, saved, &seen);
  return seen;
}

// True if a rank's script saves to that directory.
bool IsAskedFor(const std::map<NodeId, CheckpointReport>& reports, const std::string& directory) {
  for (const auto& [node, report] : reports) {
    if (report.terms.has_value() && report.terms->directory == directory) return true;
  }
  return false;
}

// Nodes look into the directory at different times and may see different checkpoints. Those of one
// job are ordered. Of two jobs, the one with the higher step counts as the later one.
bool IsSavedLater(const StoredCheckpoint& a, const StoredCheckpoint& b) {
  if (a.job_id == b.job_id) return a.saved > b.saved;
  return std::pair(a.saved.step, a.saved.generation) > std::pair(b.saved.step, b.saved.generation);
}

// Builds the plan for one step, rank by rank.
class Planner {
 public:
  Planner(const Memories& memories, SavedStep saved, uint32_t world_size)
      : memories_(memories), saved_(saved), seen_(Look(memories, saved)) {
    // All ranks hold the same tensors: the script says so, or all files are known to be equal.
    are_all_known_ = seen_.root_of.size() == seen_.world_size;
    is_replicated_ = seen_.AreEqual() && (seen_.is_replica || are_all_known_);
    is_same_size_ = seen_.world_size == world_size;
  }

  // False: no source has that rank's image.
  bool Add(NodeId node, Rank rank) {
    const auto found = memories_.reports.find(node);
    if (seen_.root_of.empty() || found == memories_.reports.end()) return false;
    const CheckpointReport& report = found->second;
    RestoreOrder::Source source{rank, {}};
    const bool takes_own = is_same_size_ || is_replicated_;
    if (takes_own && (Take(report, rank, &source) || Fetch(node, report, rank, &source))) {
      // The rank's own image, with its own random numbers.
    } else if (is_same_size_ && Remembers(report, rank, saved_.generation)) {
      // The rank was a step behind. A replica has the same tensors, but not its random numbers. An
      // older step that is the rank's own is better than a newer one that is not.
      return false;
    } else if (is_replicated_ || is_same_size_) {
      if (!TakeEqual(node, report, rank, &source)) return false;
    } else if (are_all_known_) {
      for (const auto& [other, root] : seen_.root_of) {
        if (!Take(report, other, &source) && !Fetch(node, report, other, &source)) return false;
      }
    }
    if (source.images.empty()) return false;
    plan_.sources[node].push_back(std::move(source));
    return true;
  }

  RestorePlan Finish() { return std::move(plan_); }

 private:
  bool Take(const CheckpointReport& report, Rank rank, RestoreOrder::Source* source) const {
    const MemoryImage* image = Find(report, rank, saved_);
    if (image == nullptr) return false;
    source->images.push_back({rank, image->place, image->is_copy});
    return true;
  }

  // From another host's memory, or from a node that fetches the image itself.
  bool Fetch(NodeId node, const CheckpointReport& report, Rank rank, RestoreOrder::Source* source) {
    const auto held = seen_.holders.find(rank);
    if (report.address.empty() || held == seen_.holders.end()) return false;
    std::vector<FetchOrder>& fetches = plan_.fetches[node];
    const bool is_ordered = std::any_of(fetches.begin(), fetches.end(),
                                        [&](const FetchOrder& one) { return one.rank == rank; });
    if (!is_ordered) {
      FetchOrder order{.rank = rank,
                       .saved = saved_,
                       .root = held->second.front().root,
                       .name = "",
                       .sources = {},
                       .is_urgent = true};
      if (const auto last = last_of_.find(rank); last != last_of_.end()) {
        MARK("restore chain");
        order.sources.push_back(last->second);
      }
      for (const Seen::Holder& holder : held->second) {
        const bool is_whole = holder.root == order.root;
        if (is_whole && holder.node != node && order.sources.size() < kSourcesPerFetchMax) {
          order.sources.push_back(holder.source);
        }
      }
      if (order.sources.empty()) return false;
      last_of_[rank] = {report.place, report.address, report.place, true};
      fetches.push_back(std::move(order));
    }
    source->images.push_back({rank, report.place, true});
    return true;
  }

  // Another rank's image with the same tensors.
  bool TakeEqual(NodeId node, const CheckpointReport& report, Rank rank,
                 RestoreOrder::Source* source) {
    const auto own = seen_.root_of.find(rank);
    for (const bool may_fetch : {false, true}) {
      for (const auto& [other, root] : seen_.root_of) {
        const bool is_equal = is_replicated_ || (own != seen_.root_of.end() && own->second == root);
        if (!is_equal) continue;
        if (may_fetch ? Fetch(node, report, other, source) : Take(report, other, source)) {
          return true;
        }
      }
    }
    return false;
  }

  const Memories& memories_;
  const SavedStep saved_;
  const Seen seen_;
  bool are_all_known_ = false;
  bool is_replicated_ = false;
  bool is_same_size_ = false;
  RestorePlan plan_;
  std::map<Rank, FetchOrder::Source> last_of_;  // the last node in each image's chain
};

// "; rank 2 from node3's memory", or nothing.
std::string SayFetches(const RestorePlan& plan) {
  std::map<Rank, std::string> from;
  std::set<std::string> names;
  for (const auto& [node, fetches] : plan.fetches) {
    for (const FetchOrder& fetch : fetches) {
      // The last source has the image; an earlier one may have to fetch it as well.
      from[fetch.rank] = fetch.sources.back().node;
      names.insert(fetch.sources.back().node);
    }
  }
  if (from.empty()) return "";
  std::string text = "; ";
  if (from.size() > kNamedMax) {
    text += std::to_string(from.size()) + " ranks' from the memory of " + *names.begin();
    if (names.size() > 1) text += " and " + std::to_string(names.size() - 1) + " more";
    return text;
  }
  for (const auto& [rank, name] : from) {
    if (rank != from.begin()->first) text += ", ";
    text += "rank " + std::to_string(rank.value()) + "'s from " + name + "'s memory";
  }
  return text;
}

// Splits the world into groups of neighbours whose sizes differ by at most one.
std::map<NodeId, std::vector<StorageReader>> ShareStorage(const World& world,
                                                          const Memories& memories) {
  std::set<std::string_view> domains;
  for (const Seat& seat : world.seats) {
    const auto report = memories.reports.find(seat.node);
    if (report == memories.reports.end() || report->second.address.empty()) return {};
    domains.insert(report->second.domain);
  }
  if (domains.size() < 2) return {};
  MARK("hosts share the reading of storage");
  std::map<NodeId, std::vector<StorageReader>> readers;
  const size_t count = world.seats.size();
  const size_t groups = (count + kReadersMax - 1) / kReadersMax;
  for (size_t group = 0; group < groups; ++group) {
    const size_t begin = count * group / groups;
    const size_t end = count * (group + 1) / groups;
    std::vector<StorageReader> together;
    for (size_t i = begin; i < end; ++i) {
      const CheckpointReport& report = memories.reports.at(world.seats[i].node);
      together.push_back({report.place, report.address});
    }
    for (size_t i = begin; i < end; ++i) readers[world.seats[i].node] = together;
  }
  return readers;
}

}  // namespace

bool Readdress(const std::string& node, const std::string& address,
               std::map<NodeId, std::vector<FetchOrder>>* orders) {
  bool has_changed = false;
  if (node.empty()) return has_changed;
  for (auto& [taker, fetches] : *orders) {
    for (FetchOrder& fetch : fetches) {
      for (FetchOrder::Source& source : fetch.sources) {
        if (source.node != node || source.address == address) continue;
        source.address = address;
        has_changed = true;
      }
    }
  }
  return has_changed;
}

bool Readdress(const std::string& node, const std::string& address, RestorePlan* plan) {
  bool has_changed = Readdress(node, address, &plan->fetches);
  for (auto& [of, readers] : plan->readers) {
    for (StorageReader& reader : readers) {
      if (reader.node != node || reader.address == address) continue;
      reader.address = address;
      has_changed = true;
    }
  }
  return has_changed;
}

const MemoryImage* Find(const CheckpointReport& report, Rank rank, SavedStep saved) {
  const MemoryImage* found = nullptr;
  for (const MemoryImage& image : report.images) {
    if (image.rank != rank || image.saved != saved) continue;
    if (!image.is_copy) return &image;
    found = &image;
  }
  return found;
}

bool IsDamaged(const CheckpointBook& book, const std::string& name) {
  return std::find(book.damaged.begin(), book.damaged.end(), name) != book.damaged.end();
}

bool IsSure(const RestoreDecided& decided, const World& world, const Memories& memories,
            bool has_restored) {
  size_t blind = 0;
  for (const Seat& seat : world.seats) blind += memories.reports.at(seat.node).is_blind ? 1 : 0;
  if (blind == 0) return true;
  const bool is_known = blind < world.seats.size() || has_restored;
  if (decided.from != RestoreOrder::From::kMemory || !is_known) return false;
  MARK("restore without a look at storage");
  return true;
}

std::optional<RestorePlan> PlanFromMemory(const World& world, const Memories& memories,
                                          SavedStep saved) {
  Planner planner(memories, saved, world.world_size());
  for (const Seat& seat : world.seats) {
    for (uint32_t i = 0; i < seat.rank_count; ++i) {
      if (!planner.Add(seat.node, Rank(seat.first_rank + i))) return std::nullopt;
    }
  }
  return planner.Finish();
}

RestorePlan PlanForNobody(const World& world, const Memories& memories,
                          const RestoreDecided& decided) {
  MARK("what was decided is not there any more");
  const Rank nobody(decided.world_size);
  RestorePlan plan;
  for (const Seat& seat : world.seats) {
    // A rank without a source finds nothing there.
    const RestoreOrder::Image from{nobody, memories.reports.at(seat.node).place, true};
    for (uint32_t i = 0; i < seat.rank_count; ++i) {
      plan.sources[seat.node].push_back({Rank(seat.first_rank + i), {from}});
    }
    plan.fetches[seat.node].push_back({.rank = nobody,
                                       .saved = decided.saved,
                                       .root = 0,
                                       .name = "",
                                       .sources = {},
                                       .is_urgent = true});
  }
  return plan;
}

RestorePlan PlanFromStorage(const World& world, const Memories& memories, const std::string& name) {
  const StoredCheckpoint* stored = nullptr;
  for (const auto& [node, report] : memories.reports) {
    if (report.stored.has_value() && report.stored->name == name) stored = &*report.stored;
  }
  RestorePlan plan;
  plan.readers = ShareStorage(world, memories);
  if (stored == nullptr || stored->file_of.size() != world.world_size()) return plan;
  struct Readers {
    std::vector<NodeId> nodes;
    std::set<std::string> domains;
  };
  std::map<Rank, Readers> readers_of;  // of each file
  for (const Seat& seat : world.seats) {
    const auto report = memories.reports.find(seat.node);
    if (report == memories.reports.end() || report->second.address.empty()) return plan;
    for (uint32_t i = 0; i < seat.rank_count; ++i) {
      Readers& readers = readers_of[Rank(stored->file_of[seat.first_rank + i])];
      readers.domains.insert(report->second.domain);
      if (readers.nodes.empty() || readers.nodes.back() != seat.node) {
        readers.nodes.push_back(seat.node);
      }
    }
  }
  for (const auto& [file, readers] : readers_of) {
    // On one host ranks share the page cache.
    if (readers.domains.size() < 2 || memories.unreachable.contains({file, stored->saved})) {
      continue;
    }
    MARK("storage is read once");
    std::optional<FetchOrder::Source> last;
    for (const NodeId node : readers.nodes) {
      const CheckpointReport& report = memories.reports.at(node);
      FetchOrder order{.rank = file, .saved = stored->saved, .root = 0, .name = name};
      order.is_urgent = true;
      if (last.has_value()) order.sources.push_back(*last);
      order.sources.push_back({});
      last = FetchOrder::Source{report.place, report.address, report.place, true};
      plan.fetches[node].push_back(std::move(order));
      const Seat& seat = world.seats[static_cast<size_t>(world.SeatOf(node))];
      for (uint32_t rank = seat.first_rank; rank < seat.first_rank + seat.rank_count; ++rank) {
        if (stored->file_of[rank] != file.value()) continue;
        plan.sources[node].push_back({Rank(rank), {{file, report.place, true}}});
      }
    }
  }
  return plan;
}

std::optional<StoredCheckpoint> NewestStored(const CheckpointBook& book, const Memories& memories) {
  std::optional<StoredCheckpoint> newest;
  for (const auto& [node, report] : memories.reports) {
    if (!report.stored.has_value() || IsDamaged(book, report.stored->name)) continue;
    if (!newest.has_value() || IsSavedLater(*report.stored, *newest)) newest = report.stored;
  }
  return newest;
}

RestoreDecided DecideRestore(const World& world, const CheckpointBook& book,
                             const std::string& job_id, const Memories& memories) {
  std::set<SavedStep> candidates;
  for (const auto& [node, report] : memories.reports) {
    for (const MemoryImage& image : report.images) {
      const bool is_later = image.saved.generation > world.generation.value();
      if (!is_later && !IsGivenUp(book, image.saved)) candidates.insert(image.saved);
    }
  }
  std::optional<StoredCheckpoint> stored = NewestStored(book, memories);
  // A node looks into storage when its first rank comes, so no node may have seen the newest
  // commit. The manifest has that world's size.
  const std::optional<CheckpointCommitted>& committed = book.committed;
  const bool is_there = committed.has_value() && !IsDamaged(book, committed->name) &&
                        IsAskedFor(memories.reports, committed->directory);
  StoredCheckpoint own;
  own.job_id = job_id;
  if (is_there) own.name = committed->name, own.saved = committed->saved;
  if (is_there && (!stored.has_value() || IsSavedLater(own, *stored))) {
    MARK("no node has seen what the job committed");
    stored = own;
  }
  RestoreDecided decided;
  decided.generation = world.generation;
  for (auto it = candidates.rbegin(); it != candidates.rend(); ++it) {
    const bool is_ours = stored.has_value() && stored->job_id == job_id;
    if (is_ours && stored->saved > *it) break;
    const std::optional<RestorePlan> plan = PlanFromMemory(world, memories, *it);
    if (!plan.has_value()) continue;
    MARK("restore from memory");
    decided.from = RestoreOrder::From::kMemory;
    decided.saved = *it;
    decided.world_size = Look(memories, *it).world_size;
    decided.reason =
        "goes on after step " + std::to_string(it->step) + ", from memory" + SayFetches(*plan);
    return decided;
  }
  if (stored.has_value()) {
    MARK("restore from storage");
    decided.from = RestoreOrder::From::kStorage;
    decided.saved = stored->saved;
    decided.world_size = stored->world_size;
    decided.name = stored->name;
    decided.reason = "goes on after step " + std::to_string(stored->saved.step) + ", from " +
                     stored->name +
                     (candidates.empty() ? ": nothing is in memory"
                                         : ": no newer step is in the memory of the ranks' hosts");
    return decided;
  }
  decided.reason = "begins at step 0: there is no checkpoint";
  if (book.damaged.empty()) return decided;
  // The job must not start from nothing while checkpoints exist, so the script gets an error.
  decided.name = book.damaged.back();
  decided.reason = "cannot go on: every checkpoint is damaged";
  return decided;
}

}  // namespace paceline::core
