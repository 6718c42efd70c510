#include "paceline/agent/memory/arena_shelf.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>

#include "paceline/agent/memory/arena_room.h"
#include "paceline/base/bytes_text.h"
#include "paceline/base/file_text.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/disk/disk.h"

namespace paceline::agent {
namespace {

constexpr char kPrefix[] = "rank-";
constexpr char kSuffix[] = ".arena";
constexpr char kCopySuffix[] = ".copy";
constexpr uint32_t kCopySlots = 2;

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<ckpt::DiskEntry> entries;
  std::vector<std::string> names;
  if (ckpt::SystemDisk()->List(path, &entries) != 0) return names;
  for (ckpt::DiskEntry& entry : entries) {
    if (!entry.name.starts_with('.')) names.push_back(std::move(entry.name));
  }
  return names;
}

std::optional<ArenaShelf::Place> PlaceIn(const std::string& node, std::string_view name) {
  ArenaShelf::Place place{node, 0, name.ends_with(kCopySuffix)};
  if (!TakePrefix(&name, kPrefix)) return std::nullopt;
  const std::string_view suffix = place.is_copy ? kCopySuffix : kSuffix;
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  const std::optional<uint32_t> rank = ParseWhole<uint32_t>(name);
  if (!rank.has_value()) return std::nullopt;
  place.rank = *rank;
  return place;
}

struct FoundFile {
  std::string node;
  std::string name;
  std::string path;
};
// All files of all nodes on this host.
std::vector<FoundFile> FilesBelow(const std::string& root) {
  std::vector<FoundFile> found;
  if (root.empty()) return found;
  for (const std::string& node : NamesIn(root)) {
    for (const std::string& name : NamesIn(Concat(root, "/", node))) {
      found.push_back({node, name, Concat(root, "/", node, "/", name)});
    }
  }
  return found;
}

// An arena's bytes: allocated by the file system, and still to be allocated.
struct FileRoom {
  uint64_t taken = 0;
  uint64_t awaited = 0;
};
FileRoom RoomOf(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  const uint64_t taken = static_cast<uint64_t>(found.st_blocks) * 512;
  const auto size = static_cast<uint64_t>(found.st_size);
  return {taken, size > taken ? size - taken : 0};
}

// Bytes that the arenas below `root`, except `but`, have not allocated yet.
uint64_t Unreserved(const std::string& root, const std::string& but) {
  uint64_t bytes = 0;
  for (const FoundFile& file : FilesBelow(root)) {
    if (file.path != but) bytes += RoomOf(file.path).awaited;
  }
  return bytes;
}

}  // namespace

std::string ArenaHomeIn(const std::string& parent, bool makes) {
  const std::string name = Concat("paceline-", ::geteuid());
  const std::string usual = Concat(parent, "/", name);
  const bool is_usable = WhatIsWrongWithHome(usual).empty();
  if (is_usable && ::access(usual.c_str(), F_OK) == 0) return usual;
  const auto other_home = [&] {
    std::vector<std::string> names = NamesIn(parent);
    std::sort(names.begin(), names.end());
    for (const std::string& other : names) {
      std::string path = Concat(parent, "/", other);
      if (other.starts_with(name + "-") && WhatIsWrongWithHome(path).empty()) return path;
    }
    return std::string();
  };
  // An existing other home is used even if the usual name is free again, because running jobs have
  // their images there.
  const std::string found = other_home();
  if (!found.empty()) return found;
  if (is_usable || !makes) return usual;
  std::string made = usual + "-XXXXXX";
  if (::mkdtemp(made.data()) == nullptr) return usual;
  // If two agents made one at the same time, both take the first by name.
  const std::string first = other_home();
  if (first != made) ::rmdir(made.c_str());
  return first;
}

ArenaHomes ArenaHomesOfUser(bool makes) {
  return {.memory = ArenaHomeIn("/dev/shm", makes), .disk = ArenaHomeIn("/var/tmp", makes)};
}

ArenaShelf::Roots ArenaRoots(const std::string& job_id) {
  const ArenaHomes homes = ArenaHomesOfUser(/*makes=*/true);
  return {.memory = Concat(homes.memory, "/", job_id),
          .disk = IsFarAway("/var/tmp") ? "" : Concat(homes.disk, "/", job_id)};
}

std::string ArenaShelf::PathIn(const std::string& root, const Place& place) {
  return Concat(root, "/", place.node, "/", kPrefix, place.rank,
                place.is_copy ? kCopySuffix : kSuffix);
}

std::string ArenaShelf::PathOf(const Place& place) const {
  const std::string in_memory = PathIn(roots_.memory, place);
  if (roots_.disk.empty() || ::access(in_memory.c_str(), F_OK) == 0) return in_memory;
  const std::string on_disk = PathIn(roots_.disk, place);
  return ::access(on_disk.c_str(), F_OK) == 0 ? on_disk : in_memory;
}

std::string WhatIsWrongWithHome(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? "" : Concat(path, ": ", std::strerror(errno));
  }
  if (found.st_uid != ::geteuid()) {
    return Concat(path, " belongs to another user (uid ", found.st_uid, ")");
  }
  if (!S_ISDIR(found.st_mode)) return path + " is not a directory";
  if ((found.st_mode & 077) != 0) return path + " can be entered by other users";
  return "";
}

absl::Status ArenaShelf::Prepare(const Place& place) {
  return MakeArenaFolder(roots_.memory, place.node);
}

absl::Status MakeArenaFolder(const std::string& root, const std::string& node) {
  const std::string folder = Concat(root, "/", node);
  const std::string user = root.substr(0, root.rfind('/'));
  for (const std::string& path : {user, root, folder}) {
    const absl::Status made = MakeDirs(path, 0700);
    if (const std::string why = WhatIsWrongWithHome(path); !why.empty()) {
      return absl::FailedPreconditionError(why);
    }
    RETURN_IF_ERROR(made);
  }
  return absl::OkStatus();
}

absl::StatusOr<ArenaShelf::Budget> ArenaShelf::BudgetFor(const Place& place, uint64_t image_bytes,
                                                         uint32_t replicas) {
  RETURN_IF_ERROR(MakeArenaFolder(roots_.memory, place.node));
  Budget budget;
  budget.wanted_slots = replicas > 0 ? 4 : 3;
  // An arena that is large enough stays in place whatever room there is, because it has the newest
  // steps.
  const std::shared_ptr<ckpt::Arena> present = Find(place);
  const bool stays = present != nullptr && present->image_bytes_max() >= image_bytes;
  const std::string before = PathOf(place);
  if (stays && before != PathIn(roots_.memory, place)) {
    budget.slots = present->slot_count();
    budget.is_on_disk = true;
    budget.path = before;
    budget.why = "they were begun there";
    return budget;
  }
  FitIntoMemory(place, image_bytes, replicas, &budget);
  if (budget.slots == 0 && stays) budget.slots = present->slot_count();
  if (budget.slots == 0 && !roots_.disk.empty()) {
    RETURN_IF_ERROR(MakeArenaFolder(roots_.disk, place.node));
    FitOntoDisk(place, image_bytes, &budget);
  }
  if (budget.slots == 0) return budget;
  budget.path = PathIn(budget.is_on_disk ? roots_.disk : roots_.memory, place);
  // The arena that it replaces may be in the other place.
  if (before != budget.path) ::unlink(before.c_str());
  return budget;
}

void ArenaShelf::FitIntoMemory(const Place& place, uint64_t image_bytes, uint32_t replicas,
                               Budget* budget) {
  const std::string path = PathIn(roots_.memory, place);
  // An existing arena, replaced or reused, gives its room.
  const uint64_t held = RoomOf(path).taken;
  const uint64_t promised = PromisedTo(place) + Unreserved(roots_.memory, path);
  const std::vector<MemoryRoom> rooms = RoomsAt(Concat(roots_.memory, "/", place.node));
  for (const auto& [slots, copies] :
       {std::pair(4u, replicas), std::pair(3u, replicas), std::pair(2u, replicas),
        std::pair(3u, 0u), std::pair(2u, 0u)}) {
    if (slots > budget->wanted_slots) continue;
    const uint64_t own = ckpt::Arena::BytesFor({image_bytes, slots});
    const uint64_t others = copies * ckpt::Arena::BytesFor({image_bytes, kCopySlots});
    const uint64_t needed = own + others + promised;
    const std::string lacking = Lacking(rooms, held, needed);
    if (lacking.empty()) {
      budget->slots = slots;
      budget->replicas = copies;
      promised_[place] = others;
      return;
    }
    budget->why = Concat(lacking, ", and ", slots, " images of ", BytesText(image_bytes), " with ",
                         copies, " copies for other hosts need ", BytesText(needed));
  }
}

// Only the disk limits this arena: the kernel writes its pages back, so they do not count as used
// memory.
void ArenaShelf::FitOntoDisk(const Place& place, uint64_t image_bytes, Budget* budget) const {
  const std::string path = PathIn(roots_.disk, place);
  const uint64_t promised = Unreserved(roots_.disk, path);
  const std::vector<MemoryRoom> rooms = DiskRoomAt(Concat(roots_.disk, "/", place.node));
  std::string lacking;
  for (const uint32_t slots : {3u, 2u}) {
    const uint64_t needed = ckpt::Arena::BytesFor({image_bytes, slots}) + promised;
    lacking = Lacking(rooms, RoomOf(path).taken, needed);
    if (!lacking.empty()) continue;
    budget->slots = slots;
    budget->is_on_disk = true;
    return;
  }
  budget->why += Concat("; ", lacking);
}

uint64_t ArenaShelf::PromisedTo(const Place& but) const {
  uint64_t promised = 0;
  for (const auto& [other, bytes] : promised_) promised += other == but ? 0 : bytes;
  for (const auto& [other, open] : open_) {
    if (!other.is_copy || other.node != but.node || open.arena == nullptr) continue;
    promised -= std::min(
        promised, ckpt::Arena::BytesFor({open.arena->image_bytes_max(), open.arena->slot_count()}));
  }
  return promised;
}

std::string ArenaShelf::LackingFor(uint64_t bytes) const {
  const std::string lacking =
      Lacking(RoomsAt(roots_.memory), 0, bytes + Unreserved(roots_.memory, ""));
  return lacking.empty() ? "" : Concat(lacking, ", and a copy needs ", BytesText(bytes));
}

void ArenaShelf::Refresh() {
  const std::lock_guard lock(mutex_);
  std::set<Place> seen;
  std::vector<FoundFile> files = FilesBelow(roots_.memory);
  for (FoundFile& file : FilesBelow(roots_.disk)) files.push_back(std::move(file));
  for (const FoundFile& file : files) {
    const std::optional<Place> place = PlaceIn(file.node, file.name);
    struct stat found {};
    if (!place.has_value() || ::stat(file.path.c_str(), &found) != 0) continue;
    seen.insert(*place);
    Open& open = open_[*place];
    if (open.arena != nullptr && open.inode == found.st_ino) continue;
    auto arena = ckpt::Arena::Open(file.path, {job_id_, boot_id_, place->rank});
    if (!arena.ok()) {
      LogWarning("arena_refused", {{"path", file.path}, {"why", arena.failure().message}});
      open = {found.st_ino, nullptr};
      continue;
    }
    open = {found.st_ino, *std::move(arena)};
  }
  std::erase_if(open_, [&](const auto& one) { return !seen.contains(one.first); });
}

std::shared_ptr<ckpt::Arena> ArenaShelf::Find(const Place& place) const {
  const auto found = open_.find(place);
  return found == open_.end() ? nullptr : found->second.arena;
}

std::vector<MemoryImage> ArenaShelf::Images() const {
  std::vector<MemoryImage> images;
  for (const auto& [place, open] : open_) {
    if (open.arena == nullptr) continue;
    for (const ArenaImage& image : open.arena->Sealed()) {
      images.push_back({.rank = Rank(place.rank),
                        .place = place.node,
                        .is_copy = place.is_copy,
                        .saved = image.saved(),
                        .world_size = static_cast<uint32_t>(image.world_size),
                        .file_bytes = image.file_bytes,
                        .file_root = image.file_root,
                        .root = image.root,
                        .is_replica = (image.flags & kArenaReplica) != 0});
    }
  }
  return images;
}

std::shared_ptr<const ImageClaim> ArenaShelf::Claim(const Place& place, SavedStep saved) {
  std::shared_ptr<ckpt::Arena> arena;
  {
    const std::lock_guard lock(mutex_);
    arena = Find(place);
  }
  if (arena == nullptr) return nullptr;
  const std::lock_guard lock(claims_->mutex);
  for (const ArenaImage& image : arena->Sealed()) {
    if (image.saved() != saved) continue;
    const std::pair key(static_cast<const ckpt::Arena*>(arena.get()), image.slot);
    // An image that is already claimed cannot have changed.
    if (!claims_->held.contains(key) && !arena->BeginRead(image)) {
      const std::vector<ArenaImage> now = arena->Sealed();
      if (std::find(now.begin(), now.end(), image) == now.end()) continue;  // it was overwritten
      return std::make_shared<const ImageClaim>(ImageClaim{arena, image});
    }
    ++claims_->held[key];
    return {new ImageClaim{arena, image}, [claims = claims_, key](const ImageClaim* claim) {
              {
                const std::lock_guard ending(claims->mutex);
                if (--claims->held[key] == 0) {
                  claims->held.erase(key);
                  claim->arena->EndRead(claim->image);
                }
              }
              delete claim;
            }};
  }
  return nullptr;
}

void ArenaShelf::RemoveCopy(const Place& place) {
  ::unlink(PathOf(place).c_str());
  Refresh();
}

void ArenaShelf::RemoveCopies(const std::string& node, const std::set<uint32_t>& ranks) {
  const std::string folder = Concat(roots_.memory, "/", node);
  for (const std::string& name : NamesIn(folder)) {
    const std::optional<Place> place = PlaceIn(node, name);
    if (!place.has_value() || !place->is_copy || ranks.contains(place->rank)) continue;
    ::unlink(Concat(folder, "/", name).c_str());
  }
  Refresh();
}

void ArenaShelf::RemoveAll() {
  const std::lock_guard lock(mutex_);
  open_.clear();
  for (const std::string& root : {roots_.memory, roots_.disk}) {
    for (const FoundFile& file : FilesBelow(root)) {
      if (file.name.starts_with(kPrefix)) ::unlink(file.path.c_str());
    }
    if (root.empty()) continue;
    for (const std::string& node : NamesIn(root)) ::rmdir(Concat(root, "/", node).c_str());
    ::rmdir(root.c_str());
  }
}

}  // namespace paceline::agent
