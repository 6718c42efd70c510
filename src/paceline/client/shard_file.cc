#include "paceline/client/shard_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "paceline/base/text.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/image/save.h"
#include "paceline/ckpt/storage/notes_file.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::client {
namespace {

// Zeroed pages, as the writer needs an image: page-aligned, and readable up to the end of its last
// page.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : size_(bytes + ckpt::kAlignment),
        data_(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() {
    if (ok()) ::munmap(data_, size_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  const size_t size_;
  void* const data_;
};

}  // namespace

std::string FolderNameOf(const StoredPlace& place) {
  return CheckpointNameOf({.generation = place.generation, .step = place.step});
}

Result<void> WriteStoredShard(const StoredPlace& place, uint32_t rank, const ckpt::Image& layout,
                              std::span<const void* const> sources, std::string_view notes) {
  const Pages file(layout.size);
  const Pages small(notes.size());
  if (!file.ok() || !small.ok()) {
    return Failure{FailureKind::kFull,
                   Concat("no memory for ", layout.size, " bytes: ", std::strerror(ENOMEM)),
                   ENOMEM};
  }
  ckpt::ChunkCopier copier(file.data(), layout.size);
  ckpt::AppendImage(&copier, layout, sources);
  const std::vector<uint64_t> hashes = copier.Finish();
  ckpt::ChunkCopier notes_copier(small.data(), notes.size());
  notes_copier.Append(notes.data(), notes.size());
  ckpt::MemorySource file_source({file.data(), layout.size});
  ckpt::MemorySource notes_source({small.data(), notes.size()});
  return ckpt::WriteShard(ckpt::MakePosixStore(place.directory).get(),
                          {.name = FolderNameOf(place),
                           .job_id = place.job_id,
                           .saved = {place.generation, place.step},
                           .rank = rank,
                           .file_of = rank},
                          {.file = &file_source,
                           .file_hashes = hashes,
                           .notes = &notes_source,
                           .notes_hashes = notes_copier.Finish()},
                          nullptr);
}

Result<void> CommitStored(const StoredPlace& place, uint32_t world_size) {
  PersistOrder order{.saved = {place.generation, place.step},
                     .world_size = world_size,
                     .name = FolderNameOf(place),
                     .shards = {}};
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    order.shards.push_back({Rank(rank), Rank(rank)});
  }
  const Result<ckpt::Manifest> whole =
      ckpt::Commit(ckpt::MakePosixStore(place.directory).get(), {order, place.job_id});
  if (!whole.ok()) return whole.failure();
  return {};
}

Result<std::string> FindStored(const std::string& path) {
  const Result<ckpt::Manifest> own = ckpt::ReadManifest(path);
  if (own.ok()) return path;
  ASSIGN_OR_RETURN(const std::optional<StoredCheckpoint> newest, ckpt::Newest(path));
  if (!newest.has_value()) return own.failure();
  return Concat(path, "/", newest->name);
}

Result<void> CheckNotesSize(std::string_view notes) { return ckpt::CheckNotesSize(notes); }

}  // namespace paceline::client
