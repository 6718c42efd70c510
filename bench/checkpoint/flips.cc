// Flips one bit at a time, anywhere in an arena and in the files of a checkpoint, and restores:
// does a restore ever give other bytes than those that were saved, without an error?
//
//   bench_flips MEMORY_DIR FLIPS SEED
//
// Prints one JSON line for each place: flips, how many were refused, how many changed nothing that
// is read, and how many gave wrong bytes.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/check.h"
#include "paceline/base/fd.h"
#include "paceline/base/prng.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/image/save.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::ckpt {
namespace {

constexpr uint64_t kTensorBytes = 700;
constexpr int kTensors = 5;
constexpr char kNotes[] = R"({"schema":"paceline.notes/1","step":7,"entries":{"lr":0.125}})";

struct Saved {
  std::vector<std::string> tensors;
  std::string notes;
  bool operator==(const Saved&) const = default;
};

// All that a restore gives; nothing when it is refused.
std::optional<Saved> Restored(ChunkSource* file, std::span<const uint64_t> file_hashes,
                              ChunkSource* notes, std::span<const uint64_t> notes_hashes) {
  const Result<Image> head = ReadHead(file, file_hashes);
  if (!head.ok()) return std::nullopt;
  Saved saved;
  std::vector<Target> targets;
  for (const TensorBox& box : head->boxes) saved.tensors.emplace_back(box.bytes, '\0');
  for (size_t i = 0; i < head->boxes.size(); ++i) {
    targets.push_back(
        {.box = head->boxes[i], .data = std::as_writable_bytes(std::span(saved.tensors[i]))});
  }
  if (!Restore(file, file_hashes, std::move(targets)).ok()) return std::nullopt;
  Result<std::string> text = ReadAll(notes, notes_hashes, 1 << 20);
  if (!text.ok()) return std::nullopt;
  saved.notes = *std::move(text);
  return saved;
}

std::optional<Saved> FromMemory(const std::string& path) {
  const auto arena = Arena::Open(path, {"job", "boot", 0});
  if (!arena.ok()) return std::nullopt;
  for (const ArenaImage& image : (*arena)->Sealed()) {
    if (image.generation != 1 || image.step != 7) continue;
    MemorySource file((*arena)->FileOf(image));
    MemorySource notes((*arena)->NotesOf(image));
    return Restored(&file, (*arena)->FileHashesOf(image), &notes, (*arena)->NotesHashesOf(image));
  }
  return std::nullopt;
}

std::optional<Saved> FromStorage(const std::string& folder) {
  const Result<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return std::nullopt;
  if (manifest->step != 7 || manifest->generation != 1) return std::nullopt;
  const ManifestRank* rank = manifest->Of(0);
  if (rank == nullptr) return std::nullopt;
  const ManifestFile* file = manifest->Find(rank->file);
  const ManifestFile* notes = manifest->Find(rank->notes);
  if (file == nullptr || notes == nullptr) return std::nullopt;
  const auto tensors = FileSource::Open(folder + "/" + file->name, file->bytes);
  const auto text = FileSource::Open(folder + "/" + notes->name, notes->bytes);
  if (!tensors.ok() || !text.ok()) return std::nullopt;
  return Restored(tensors->get(), file->hashes, text->get(), notes->hashes);
}

struct Count {
  uint64_t refused = 0;
  uint64_t harmless = 0;
  uint64_t wrong = 0;
};

// A file that is mapped for flipping.
class Victim {
 public:
  explicit Victim(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    CHECK(fd.is_open(), "the file is there");
    struct stat found {};
    CHECK(::fstat(fd.get(), &found) == 0, "it has a size");
    size_ = static_cast<size_t>(found.st_size);
    void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    CHECK(at != MAP_FAILED, "it can be mapped");
    bytes_ = static_cast<unsigned char*>(at);
  }
  size_t size() const { return size_; }
  void Flip(size_t at, int bit) { bytes_[at] ^= static_cast<unsigned char>(1 << bit); }

 private:
  size_t size_ = 0;
  unsigned char* bytes_ = nullptr;
};

struct Range {
  size_t begin = 0;
  int64_t size = 0;
};

template <typename Read>
Count FlipAll(Victim* victim, Range range, uint64_t flips, Prng* prng, const Saved& truth,
              const Read& read) {
  Count count;
  for (uint64_t i = 0; i < flips; ++i) {
    const auto at = range.begin + static_cast<size_t>(prng->Between(0, range.size - 1));
    const int bit = static_cast<int>(prng->Between(0, 7));
    victim->Flip(at, bit);
    const std::optional<Saved> got = read();
    victim->Flip(at, bit);
    uint64_t& which = !got.has_value() ? count.refused
                      : *got == truth  ? count.harmless
                                       : count.wrong;
    ++which;
  }
  return count;
}

void Print(const std::string& place, uint64_t flips, const Count& count) {
  printf(R"({"what":"%s","flips":%llu,"refused":%llu,"harmless":%llu,"wrong":%llu})"
         "\n",
         place.c_str(), static_cast<unsigned long long>(flips),
         static_cast<unsigned long long>(count.refused),
         static_cast<unsigned long long>(count.harmless),
         static_cast<unsigned long long>(count.wrong));
}

Saved MakeTruth(Prng* prng) {
  Saved truth;
  for (int i = 0; i < kTensors; ++i) {
    std::string bytes(kTensorBytes, '\0');
    for (char& byte : bytes) byte = static_cast<char>(prng->Next());
    truth.tensors.push_back(std::move(bytes));
  }
  truth.notes = kNotes;
  return truth;
}

// As an agent writes and commits it.
void StoreImage(const Arena& arena, const ArenaImage& image, const std::string& dir) {
  const std::unique_ptr<Store> store = MakePosixStore(dir);
  MemorySource file(arena.FileOf(image));
  MemorySource notes(arena.NotesOf(image));
  CHECK(WriteShard(store.get(), {.name = "step-7-g1", .job_id = "job", .saved = {1, 7}},
                   {.file = &file,
                    .file_hashes = arena.FileHashesOf(image),
                    .notes = &notes,
                    .notes_hashes = arena.NotesHashesOf(image)},
                   nullptr)
            .ok(),
        "it is written");
  CHECK(Commit(store.get(), {.order = {.saved = {1, 7},
                                       .world_size = 1,
                                       .name = "step-7-g1",
                                       .shards = {{Rank(0), Rank(0)}}},
                             .job_id = "job"})
            .ok(),
        "it is committed");
}

int Main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "bench_flips MEMORY_DIR FLIPS SEED\n");
    return 2;
  }
  const std::string dir = argv[1];
  const uint64_t flips = strtoull(argv[2], nullptr, 10);
  Prng prng(strtoull(argv[3], nullptr, 10));

  std::vector<TensorBox> boxes;
  for (int i = 0; i < kTensors; ++i) {
    boxes.push_back({.key = "t" + std::to_string(i), .dtype = DType::kU8, .shape = {kTensorBytes}});
  }
  const Saved truth = MakeTruth(&prng);
  std::vector<const void*> sources;
  for (const std::string& tensor : truth.tensors) sources.push_back(tensor.data());
  const Image layout = *LayOut(std::move(boxes), {});
  const std::string arena_path = dir + "/arena";
  auto arena = *Arena::OpenOrMake(arena_path, {"job", "boot", 0}, {layout.size + 8192, 2});
  CHECK(arena->Reserve(0).ok() && arena->Reserve(1).ok(), "there is memory");
  CHECK(
      Save(arena.get(), layout, sources, {.saved = {1, 7}, .world_size = 1, .notes = kNotes}).ok(),
      "it is saved");
  CHECK(FromMemory(arena_path) == truth, "memory gives what was saved");
  const ArenaImage image = arena->Sealed().front();
  StoreImage(*arena, image, dir);
  const std::string folder = dir + "/step-7-g1";
  CHECK(FromStorage(folder) == truth, "storage gives what was saved");

  // Of the arena: the header with both controls, and the image in its first slot.
  Victim memory(arena_path);
  const uint64_t slots = 2 * arena->image_bytes_max();
  const auto image_bytes = static_cast<int64_t>(NotesAt(image.file_bytes) + image.notes_bytes);
  const auto read_memory = [&] { return FromMemory(arena_path); };
  uint64_t wrong = 0;
  for (const auto& [name, range] :
       {std::pair("arena control", Range{0, 3 * int64_t{kArenaPage}}),
        std::pair("arena image", Range{memory.size() - slots, image_bytes})}) {
    const Count count = FlipAll(&memory, range, flips / 5, &prng, truth, read_memory);
    Print(name, flips / 5, count);
    wrong += count.wrong;
  }
  struct Part {
    const char* name;
    const char* file;
  };
  for (const Part& part : {Part{"shard", "shard-00000.safetensors"},
                           Part{"notes", "rank-00000.json"}, Part{"manifest", "MANIFEST.json"}}) {
    Victim victim(folder + "/" + part.file);
    const Count count = FlipAll(&victim, {0, static_cast<int64_t>(victim.size())}, flips / 5, &prng,
                                truth, [&] { return FromStorage(folder); });
    Print(part.name, flips / 5, count);
    wrong += count.wrong;
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace paceline::ckpt

int main(int argc, char** argv) { return paceline::ckpt::Main(argc, argv); }
