#include "paceline/ckpt/image/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/base/result.h"
#include "paceline/base/retried.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::ckpt {
namespace {

constexpr uint64_t kImageBytesMax = uint64_t{1} << 46;
// The kernel holds the lock of the address space while it maps a range. With long ranges a malloc
// of the training process would wait that long; so would a save that takes over from a thread of
// low priority.
constexpr uint64_t kReservedAtOnce = uint64_t{2} << 20;

// File and notes share the room of an image. Each may end with a partial chunk.
uint64_t ControlBytes(uint64_t image_bytes) {
  return ArenaRoundUp(sizeof(ArenaSlot) + (ChunkCount(image_bytes) + 1) * sizeof(uint64_t),
                      kArenaPage);
}

uint64_t FirstImageAt(uint64_t control_bytes, uint32_t slots) {
  return ArenaRoundUp(kArenaPage + control_bytes * slots, kArenaImageAlignment);
}

Failure SystemError(std::string_view what, const std::string& path, int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT || error == ENOMEM;
  return Failure{is_full           ? FailureKind::kFull
                 : error == ENOENT ? FailureKind::kNotFound
                                   : FailureKind::kSystem,
                 Concat(what, " ", path, ": ", std::strerror(error)), error};
}

uint64_t HeaderCheck(const ArenaHeader& header) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&header);
  return ArenaCheck({bytes + sizeof(uint64_t), offsetof(ArenaHeader, check) - sizeof(uint64_t)});
}

template <size_t kSize>
void Fill(char (&field)[kSize], const std::string& text) {
  CHECK(text.size() < kSize, "a name fits its field");
  std::memcpy(field, text.data(), text.size());
}

template <size_t kSize>
std::string_view TextIn(const char (&field)[kSize]) {
  return {field, ::strnlen(field, kSize)};
}

ArenaSlotState StateOf(uint64_t word) { return static_cast<ArenaSlotState>(word & 0xff); }

// Makes a sparse file of `bytes` and reserves the first `reserved` of them. Fails if the file
// system has no room for all now; later it may still run full.
int MakeRoom(int fd, uint64_t bytes, uint64_t reserved) {
  struct statvfs found {};
  if (::fstatvfs(fd, &found) == 0 && uint64_t{found.f_bavail} * found.f_frsize < bytes) {
    return ENOSPC;
  }
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return errno;
  return -ReserveRange(fd, 0, reserved);
}

uint64_t NextWord(uint64_t word, ArenaSlotState state) {
  return ((word >> 8) + 1) << 8 | static_cast<uint64_t>(state);
}

}  // namespace

uint64_t Arena::BytesFor(const ArenaSize& size) {
  const uint64_t image = ArenaRoundUp(size.image_bytes, kArenaImageAlignment);
  return FirstImageAt(ControlBytes(image), size.slot_count) + image * size.slot_count;
}

Result<std::unique_ptr<Arena>> Arena::OpenOrMake(const std::string& path,
                                                 const ArenaIdentity& identity,
                                                 const ArenaSize& size) {
  CHECK(size.slot_count >= 2 && size.slot_count <= kArenaSlotsMax, "two to eight slots");
  if (size.image_bytes == 0 || size.image_bytes > kImageBytesMax) {
    return Failure{FailureKind::kInvalid, "an image of an absurd size"};
  }
  Result<std::unique_ptr<Arena>> found = Open(path, identity);
  // An arena with another number of slots is used as well, because a new file would lose its
  // images.
  if (found.ok() && (*found)->image_bytes_max() >= size.image_bytes) return found;
  if (!found.ok() && found.failure().kind != FailureKind::kNotFound &&
      found.failure().kind != FailureKind::kDamaged) {
    return found.failure();
  }
  return Make(path, identity, size);
}

// Made under another name first, so that a reader never finds a partial file.
Result<std::unique_ptr<Arena>> Arena::Make(const std::string& path, const ArenaIdentity& identity,
                                           const ArenaSize& size) {
  const std::string making = Concat(path, ".", ::getpid());
  ::unlink(making.c_str());
  Fd fd(::open(making.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return SystemError("cannot make", making, errno);
  const uint64_t image_bytes = ArenaRoundUp(size.image_bytes, kArenaImageAlignment);
  const uint64_t bytes = BytesFor(size);
  if (const int error = MakeRoom(fd.get(), bytes, bytes - image_bytes * size.slot_count);
      error != 0) {
    ::unlink(making.c_str());
    return SystemError(Concat("cannot reserve ", bytes, " bytes for"), path, error);
  }
  Result<std::unique_ptr<Arena>> arena = Map(std::move(fd), bytes);
  if (arena.ok()) {
    auto* header = reinterpret_cast<ArenaHeader*>((*arena)->memory_);
    header->version = kArenaVersion;
    header->slot_count = size.slot_count;
    header->image_bytes = image_bytes;
    header->control_bytes = ControlBytes(header->image_bytes);
    header->rank = identity.rank;
    header->user = ::geteuid();
    Fill(header->boot_id, identity.boot_id);
    Fill(header->job_id, identity.job_id);
    header->check = HeaderCheck(*header);
    for (uint32_t i = 0; i < size.slot_count; ++i) {
      (*arena)->SetState(i, ArenaSlotState::kUnreserved);
    }
    header->magic.store(kArenaMagic, std::memory_order_release);
    if (::rename(making.c_str(), path.c_str()) == 0) return arena;
  }
  const int error = errno;
  ::unlink(making.c_str());
  if (!arena.ok()) return arena.failure();
  return SystemError("cannot make", path, error);
}

Result<std::unique_ptr<Arena>> Arena::Open(const std::string& path, const ArenaIdentity& identity) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.is_open()) return SystemError("cannot open", path, errno);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return SystemError("cannot look at", path, errno);
  if (found.st_uid != ::geteuid()) {
    return Failure{FailureKind::kNotOurs, path + " belongs to another user"};
  }
  if (!S_ISREG(found.st_mode) || static_cast<uint64_t>(found.st_size) < kArenaPage) {
    return Failure{FailureKind::kDamaged, path + " is cut off"};
  }
  ASSIGN_OR_RETURN(auto arena, Map(std::move(fd), static_cast<uint64_t>(found.st_size)));
  if (const Result<void> held = arena->CheckHeader(identity); !held.ok()) {
    return Annotate(held.failure(), path);
  }
  return arena;
}

Result<std::unique_ptr<Arena>> Arena::Map(Fd fd, uint64_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return SystemError("cannot map", "an arena", errno);
  ::madvise(memory, size, MADV_HUGEPAGE);  // if the file system supports them
  return std::unique_ptr<Arena>(new Arena(std::move(fd), static_cast<std::byte*>(memory), size));
}

Result<void> Arena::Reserve(uint32_t index) {
  uint64_t done = 0;
  for (bool is_whole = false; !is_whole;) {
    ASSIGN_OR_RETURN(is_whole, ReservePiece(index, &done));
  }
  return {};
}

Result<bool> Arena::ReservePiece(uint32_t index, uint64_t* done) {
  const uint64_t whole = header().image_bytes;
  const uint64_t at = ImageAt(index) + *done;
  const uint64_t bytes = std::min(kReservedAtOnce, whole - *done);
  const bool is_new = !IsReserved(index);
  if (is_new && bytes > 0) {
    if (const int error = -ReserveRange(fd_.get(), at, bytes); error != 0) {
      GiveBack(index);
      *done = 0;
      return SystemError(Concat("cannot reserve slot ", index, " of"), "an arena", error);
    }
  }
  if (bytes > 0) MapPages(at, bytes);
  *done += bytes;
  if (*done < whole) return false;
  if (is_new) SetState(index, ArenaSlotState::kFree);
  return true;
}

void Arena::GiveBack(uint32_t index) {
  SetState(index, ArenaSlotState::kUnreserved);
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(ImageAt(index)), static_cast<off_t>(header().image_bytes));
}

bool Arena::IsReserved(uint32_t index) const {
  return Look(index).state != ArenaSlotState::kUnreserved;
}

void Arena::MapPages(uint64_t at, uint64_t bytes) {
  if (::madvise(memory_ + at, bytes, MADV_POPULATE_WRITE) == 0) return;
  // Kernels before 5.14: adding 0 faults the page in, and no concurrent write is lost.
  for (uint64_t page = at; page < at + bytes; page += kArenaPage) {
    std::atomic_ref(*reinterpret_cast<uint64_t*>(memory_ + page)).fetch_add(0);
  }
}

void Arena::MapAhead(const std::byte* begin, uint64_t bytes) {
  const auto at = static_cast<uint64_t>(begin - memory_);
  const uint64_t first = at / kArenaPage * kArenaPage;
  MapPages(first, std::min(at + bytes, size_) - first);
}

Arena::~Arena() { ::munmap(memory_, size_); }

Result<void> Arena::CheckHeader(const ArenaIdentity& identity) const {
  const ArenaHeader& head = header();
  const auto lost = [](const char* why) { return Failure{FailureKind::kDamaged, why}; };
  const auto foreign = [](const char* why) { return Failure{FailureKind::kNotOurs, why}; };
  if (head.magic.load(std::memory_order_acquire) != kArenaMagic) return lost("is no arena");
  if (head.check != HeaderCheck(head)) return lost("has a damaged header");
  if (head.version != kArenaVersion) return foreign("is of another version of paceline");
  if (head.slot_count < 2 || head.slot_count > kArenaSlotsMax ||
      head.image_bytes > kImageBytesMax || head.image_bytes % kArenaImageAlignment != 0 ||
      head.control_bytes != ControlBytes(head.image_bytes) ||
      size_ < BytesFor({head.image_bytes, head.slot_count})) {
    return lost("has sizes that do not fit");
  }
  if (head.user != ::geteuid()) return foreign("belongs to another user");
  if (TextIn(head.job_id) != identity.job_id) return foreign("is another job's");
  if (TextIn(head.boot_id) != identity.boot_id) return foreign("is of another boot");
  if (head.rank != identity.rank) return foreign("is another rank's");
  return {};
}

ArenaSlot& Arena::slot(uint32_t index) const {
  return *reinterpret_cast<ArenaSlot*>(memory_ + kArenaPage + header().control_bytes * index);
}

uint64_t* Arena::hashes(uint32_t index) const {
  return reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(&slot(index)) +
                                     sizeof(ArenaSlot));
}

uint64_t Arena::ImageAt(uint32_t index) const {
  const ArenaHeader& head = header();
  return FirstImageAt(head.control_bytes, head.slot_count) + head.image_bytes * index;
}

// A slot that is marked sealed but fails its check counts as free.
ArenaSlotView Arena::Look(uint32_t index) const {
  const ArenaSlot& at = slot(index);
  ArenaSlotView view;
  view.state = StateOf(at.state.load(std::memory_order_acquire));
  if (view.state != ArenaSlotState::kSealed && view.state != ArenaSlotState::kReading) return view;
  view.image = {.slot = index,
                .generation = at.generation,
                .step = at.step,
                .world_size = at.world_size,
                .file_bytes = at.file_bytes,
                .head_bytes = at.head_bytes,
                .notes_bytes = at.notes_bytes,
                .file_root = at.file_root,
                .root = at.root,
                .flags = at.flags,
                .branch = at.branch};
  const uint64_t room = header().image_bytes;
  const bool holds = at.check == CheckOf(view.image) && view.image.file_bytes <= room &&
                     view.image.notes_bytes <= room - view.image.file_bytes &&
                     NotesAt(view.image.file_bytes) + view.image.notes_bytes <= room &&
                     view.image.head_bytes <= view.image.file_bytes;
  if (!holds) view.state = ArenaSlotState::kFree;
  return view;
}

void Arena::SetState(uint32_t index, ArenaSlotState state) {
  std::atomic<uint64_t>& word = slot(index).state;
  word.store(NextWord(word.load(std::memory_order_relaxed), state), std::memory_order_release);
}

void Arena::ForgetUnfinished() {
  for (uint32_t i = 0; i < slot_count(); ++i) {
    if (Look(i).state == ArenaSlotState::kWriting) SetState(i, ArenaSlotState::kFree);
  }
}

std::optional<uint32_t> Arena::BeginWrite(std::optional<SavedStep> keep) {
  for (;;) {
    std::array<ArenaSlotView, kArenaSlotsMax> views;
    std::array<uint64_t, kArenaSlotsMax> words{};
    for (uint32_t i = 0; i < slot_count(); ++i) {
      words[i] = slot(i).state.load(std::memory_order_acquire);
      views[i] = Look(i);
    }
    const auto chosen = ChooseSlot(std::span(views).first(slot_count()), keep);
    if (!chosen.has_value()) return std::nullopt;
    // If a reader has claimed the slot in the meantime, choose again.
    uint64_t expected = words[*chosen];
    if (slot(*chosen).state.compare_exchange_strong(
            expected, NextWord(expected, ArenaSlotState::kWriting), std::memory_order_acq_rel)) {
      return chosen;
    }
  }
}

void Arena::Seal(ArenaImage image, std::span<const uint64_t> file_hashes,
                 std::span<const uint64_t> notes_hashes) {
  CHECK(file_hashes.size() == ChunkCount(image.file_bytes), "a hash for each chunk of the file");
  CHECK(notes_hashes.size() == ChunkCount(image.notes_bytes), "a hash for each chunk of the notes");
  ArenaSlot& at = slot(image.slot);
  uint64_t* const all = hashes(image.slot);
  std::copy(notes_hashes.begin(), notes_hashes.end(),
            std::copy(file_hashes.begin(), file_hashes.end(), all));
  image.file_root = HashOf(all, file_hashes.size_bytes());
  image.root = HashOf(all, file_hashes.size_bytes() + notes_hashes.size_bytes());
  at.generation = image.generation;
  at.step = image.step;
  at.world_size = image.world_size;
  at.file_bytes = image.file_bytes;
  at.head_bytes = image.head_bytes;
  at.notes_bytes = image.notes_bytes;
  at.file_root = image.file_root;
  at.root = image.root;
  at.flags = image.flags;
  at.branch = image.branch;
  at.check = CheckOf(image);
  SetState(image.slot, ArenaSlotState::kSealed);
}

std::optional<SavedStep> Arena::hold() const {
  const ArenaHeader& head = header();
  const uint64_t word = head.hold.load();
  const SavedStep from{.generation = head.hold_generation.load(),
                       .step = static_cast<int64_t>(word) - 1,
                       .branch = head.hold_branch.load()};
  // An agent is just changing the hold, and will announce a new one.
  if (word == 0 || head.hold.load() != word) return std::nullopt;
  return from;
}

void Arena::SetHold(std::optional<SavedStep> from) {
  auto* header = reinterpret_cast<ArenaHeader*>(memory_);
  header->hold.store(0);
  if (!from.has_value()) return;
  header->hold_generation.store(from->generation);
  header->hold_branch.store(from->branch);
  header->hold.store(static_cast<uint64_t>(from->step) + 1);
}

void Arena::GiveUp(uint32_t index) { SetState(index, ArenaSlotState::kFree); }

std::vector<ArenaImage> Arena::Sealed() const {
  std::vector<ArenaImage> images;
  for (uint32_t i = 0; i < slot_count(); ++i) {
    const ArenaSlotView view = Look(i);
    if (view.state == ArenaSlotState::kSealed || view.state == ArenaSlotState::kReading) {
      images.push_back(view.image);
    }
  }
  std::sort(images.begin(), images.end(), IsNewer);
  return images;
}

bool Arena::BeginRead(const ArenaImage& image) {
  std::atomic<uint64_t>& state = slot(image.slot).state;
  uint64_t word = state.load(std::memory_order_acquire);
  if (StateOf(word) != ArenaSlotState::kSealed || Look(image.slot).image != image) return false;
  return state.compare_exchange_strong(word, NextWord(word, ArenaSlotState::kReading),
                                       std::memory_order_acq_rel);
}

void Arena::EndRead(const ArenaImage& image) { SetState(image.slot, ArenaSlotState::kSealed); }

void Arena::ForgetReaders() {
  for (uint32_t i = 0; i < slot_count(); ++i) {
    if (Look(i).state == ArenaSlotState::kReading) SetState(i, ArenaSlotState::kSealed);
  }
}

std::span<const std::byte> Arena::FileOf(const ArenaImage& image) const {
  return {memory_ + ImageAt(image.slot), image.file_bytes};
}

std::span<const std::byte> Arena::NotesOf(const ArenaImage& image) const {
  return {memory_ + ImageAt(image.slot) + NotesAt(image.file_bytes), image.notes_bytes};
}

std::vector<uint64_t> Arena::FileHashesOf(const ArenaImage& image) const {
  const uint64_t* first = hashes(image.slot);
  return {first, first + ChunkCount(image.file_bytes)};
}

std::vector<uint64_t> Arena::NotesHashesOf(const ArenaImage& image) const {
  const uint64_t* first = hashes(image.slot) + ChunkCount(image.file_bytes);
  return {first, first + ChunkCount(image.notes_bytes)};
}

}  // namespace paceline::ckpt
