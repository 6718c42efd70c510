#include "paceline/agent/memory/shared_reading.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "paceline/agent/memory/arena_room.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/storage/storage.h"

namespace paceline::agent {
namespace {

static_assert(kStoredChunkBytes == ckpt::kChunkBytes);

// The share of free memory for chunks that others may ask for: 1/8.
constexpr uint64_t kCacheShare = 8;
constexpr uint64_t kCacheBytesMin = uint64_t{64} << 20;
constexpr Duration kIdleMax = Duration::Seconds(30);
constexpr size_t kFilesOpenMax = 32;  // in each thread
constexpr int kReadsMax = 3;          // of a chunk that fails its check

// True for "step-7-g1/shard-00003.safetensors"; false for names that lead elsewhere.
bool IsKey(std::string_view file) {
  const size_t slash = file.find('/');
  return slash != std::string_view::npos && ckpt::IsCheckpointName(file.substr(0, slash)) &&
         ckpt::IsPlainName(file.substr(slash + 1));
}

// The chunk's reader. All hosts compute the same, and neighbouring chunks have different readers.
size_t ReaderOf(const StoredChunk& chunk, size_t readers) {
  const uint64_t file = ckpt::HashOf(chunk.file.data(), chunk.file.size());
  return static_cast<size_t>((file + chunk.index) % readers);
}

HeldChunk CopyOf(std::span<const std::byte> bytes) {
  auto made = std::make_shared<ChunkBytes>(bytes.size());
  std::memcpy(made->data.get(), bytes.data(), bytes.size());
  return made;
}

bool Holds(const StoredChunk& chunk, std::span<const std::byte> bytes) {
  return bytes.size() == chunk.bytes() && ckpt::HashOf(bytes.data(), bytes.size()) == chunk.hash;
}

}  // namespace

SharedReading::SharedReading(Reactor& reactor, const wire::BulkTls* tls, Setup setup)
    : reactor_(reactor),
      setup_(std::move(setup)),
      peers_(setup_.credentials, tls),
      plan_(std::make_shared<const Plan>()) {}

SharedReading::~SharedReading() {
  if (timer_ != 0) reactor_.Cancel(timer_);
}

void SharedReading::Set(const std::vector<StorageReader>& readers, const std::string& directory) {
  {
    const std::lock_guard lock(mutex_);
    plan_ = std::make_shared<const Plan>(Plan{readers, directory});
  }
  peers_.Reset();
  if (readers.empty()) {
    if (timer_ != 0) reactor_.Cancel(std::exchange(timer_, 0));
    return Drop();
  }
  uint64_t room = UINT64_MAX;
  for (const MemoryRoom& one : RoomsAt(setup_.memory_root)) room = std::min(room, one.bytes);
  cache_.SetBudget(std::max(room / kCacheShare, kCacheBytesMin));
  used_ns_ = MonotonicNs();
  if (timer_ == 0) Tidy();
}

// Drops the cache when reading is over: ranks read for minutes at most, and later ones read again.
void SharedReading::Tidy() {
  const int64_t now = MonotonicNs();
  int64_t drop_at = used_ns_ + kIdleMax.nanoseconds();
  if (drop_at <= now) {
    Drop();
    drop_at = now + kIdleMax.nanoseconds();
  }
  timer_ = reactor_.CallAt(drop_at, [this] { Tidy(); });
}

void SharedReading::Drop() {
  const uint64_t read = read_bytes_.exchange(0);
  const uint64_t taken = taken_bytes_.exchange(0);
  if (read + taken > 0) {
    LogInfo("storage_shared", {{"read_bytes", read}, {"taken_bytes", taken}});
  }
  cache_.Clear();
  peers_.Reset();
  std::vector<std::unique_ptr<Opened>> stores;  // closed outside the lock: for S3 a process ends
  const std::lock_guard lock(mutex_);
  stores.swap(idle_stores_);
}

std::shared_ptr<const SharedReading::Plan> SharedReading::PlanNow() {
  used_ns_ = MonotonicNs();
  const std::lock_guard lock(mutex_);
  return plan_;
}

bool SharedReading::is_on() { return !PlanNow()->readers.empty(); }

Result<HeldChunk> SharedReading::Read(const StoredChunk& chunk) {
  if (!IsKey(chunk.file)) return Failure{FailureKind::kInvalid, "this is no file of a checkpoint"};
  const std::shared_ptr<const Plan> plan = PlanNow();
  if (plan->directory.empty()) return Failure{FailureKind::kBusy, "no storage is known here"};
  return cache_.Get(chunk, ChunkCache::Way::kStorage,
                    [&] { return ReadFromStore(chunk, plan->directory); });
}

Result<HeldChunk> SharedReading::Fetch(const StoredChunk& chunk) {
  const std::shared_ptr<const Plan> plan = PlanNow();
  if (plan->readers.empty()) return Read(chunk);
  const StorageReader& reader = plan->readers[ReaderOf(chunk, plan->readers.size())];
  if (reader.node == setup_.node) return Read(chunk);
  const Result<HeldChunk> taken = cache_.Get(chunk, ChunkCache::Way::kPeer, [&] {
    Result<HeldChunk> asked = peers_.Ask(reader, chunk);
    if (asked.ok()) {
      taken_bytes_ += (*asked)->size;
    } else {
      LogWarning("chunk_not_taken", {{"from", reader.node},
                                     {"file", chunk.file},
                                     {"chunk", chunk.index},
                                     {"why", asked.failure().message}});
    }
    return asked;
  });
  return taken.ok() ? taken : Read(chunk);
}

// ---- storage ----

std::unique_ptr<SharedReading::Opened> SharedReading::TakeStore() {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [this] { return stores_in_use_ < kStoresMax; });
  ++stores_in_use_;
  if (idle_stores_.empty()) {
    return std::make_unique<Opened>(Opened{OpenedStore(setup_.store_host), {}, ""});
  }
  std::unique_ptr<Opened> taken = std::move(idle_stores_.back());
  idle_stores_.pop_back();
  return taken;
}

void SharedReading::GiveBack(std::unique_ptr<Opened> opened) {
  {
    const std::lock_guard lock(mutex_);
    --stores_in_use_;
    if (!plan_->readers.empty()) idle_stores_.push_back(std::move(opened));
  }
  freed_.notify_all();
}

Result<HeldChunk> SharedReading::ReadFromStore(const StoredChunk& chunk,
                                               const std::string& directory) {
  std::unique_ptr<Opened> opened = TakeStore();
  Result<HeldChunk> read = ReadWith(opened.get(), chunk, directory);
  GiveBack(std::move(opened));
  return read;
}

Result<HeldChunk> SharedReading::ReadWith(Opened* opened, const StoredChunk& chunk,
                                          const std::string& directory) {
  if (opened->directory != directory || opened->files.size() >= kFilesOpenMax) {
    opened->files.clear();
    opened->directory = directory;
  }
  for (int i = 1;; ++i) {
    std::unique_ptr<ckpt::ChunkSource>& file = opened->files[chunk.file];
    if (file == nullptr) {
      ASSIGN_OR_RETURN(ckpt::Store* const store, opened->store.At(directory));
      ASSIGN_OR_RETURN(file, store->Open(chunk.file, chunk.file_bytes));
      file->ExpectSome();
    }
    if (file->size() != chunk.file_bytes) {
      return Failure{FailureKind::kDamaged, chunk.file + " has another size"};
    }
    Result<std::span<const std::byte>> bytes = file->Chunk(chunk.index);
    if (!bytes.ok()) {
      Failure failure = bytes.failure();
      opened->files.erase(chunk.file);
      return failure;
    }
    read_bytes_ += bytes->size();
    if (Holds(chunk, *bytes)) return CopyOf(*bytes);
    // A transfer error may be gone at the next read, from a newly opened file.
    opened->files.erase(chunk.file);
    if (i == kReadsMax) {
      return Failure{FailureKind::kDamaged,
                     Concat("chunk ", chunk.index, " of ", chunk.file, " is not what was saved")};
    }
  }
}

}  // namespace paceline::agent
