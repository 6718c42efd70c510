#pragma once

// Chunks of checkpoints in storage, each read by one host for all hosts that share the reading
// (StorageReader; core/checkpoint/restore.h decides). A rank's agent asks the chunk's reader, which
// reads it once and caches it. If the reader fails, the agent reads storage itself. Each chunk is
// verified, so a rank never gets wrong bytes.
//
// The work runs on the callers' threads, which may block. Set and the timer are the loop's.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/agent/memory/chunk_cache.h"
#include "paceline/agent/memory/chunk_peers.h"
#include "paceline/agent/memory/opened_store.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/result.h"
#include "paceline/ckpt/store/stores.h"
#include "paceline/model/checkpoint.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

class SharedReading {
 public:
  // Stores in use at once: each thread has its own, for S3 a process.
  static constexpr size_t kStoresMax = 4;

  struct Setup {
    std::string node;
    wire::Credentials credentials;
    ckpt::StoreHost store_host = {};
    std::string memory_root = "/dev/shm";  // whose free room limits the cache
  };

  // `reactor` and `tls` must outlive it.
  SharedReading(Reactor& reactor, const wire::BulkTls* tls, Setup setup);
  ~SharedReading();
  SharedReading(const SharedReading&) = delete;
  SharedReading& operator=(const SharedReading&) = delete;

  // Sets the hosts that share the reading, and the directory. No hosts: drops the cache, and
  // remaining requests read storage.
  void Set(const std::vector<StorageReader>& readers, const std::string& directory);

  // ---- called by any thread ----

  // Whether this host reads for others.
  bool is_on();
  // Bytes read from storage since Set.
  uint64_t read_bytes() const { return read_bytes_; }
  // Read is for other hosts: from storage. Fetch is for ranks of this host: from the chunk's
  // reader, else from storage. kDamaged, kNotFound, kInvalid; kBusy: storage does not answer.
  Result<HeldChunk> Read(const StoredChunk& chunk);
  Result<HeldChunk> Fetch(const StoredChunk& chunk);

 private:
  // Used by one thread at a time.
  struct Opened {
    OpenedStore store;
    std::map<std::string, std::unique_ptr<ckpt::ChunkSource>> files;
    std::string directory;  // of the files
  };
  struct Plan {
    std::vector<StorageReader> readers;
    std::string directory;
  };

  Result<HeldChunk> ReadFromStore(const StoredChunk& chunk, const std::string& directory);
  Result<HeldChunk> ReadWith(Opened* opened, const StoredChunk& chunk,
                             const std::string& directory);
  std::unique_ptr<Opened> TakeStore();
  void GiveBack(std::unique_ptr<Opened> opened);
  std::shared_ptr<const Plan> PlanNow();
  void Drop();
  void Tidy();

  Reactor& reactor_;
  const Setup setup_;
  ChunkCache cache_;
  ChunkPeers peers_;
  Reactor::TimerId timer_ = 0;  // of the loop
  std::atomic<int64_t> used_ns_ = 0;
  std::atomic<uint64_t> read_bytes_ = 0;   // from storage
  std::atomic<uint64_t> taken_bytes_ = 0;  // from other hosts

  std::mutex mutex_;  // guards the rest
  std::condition_variable freed_;
  std::shared_ptr<const Plan> plan_;  // owners: this object, and threads that use it
  size_t stores_in_use_ = 0;
  std::vector<std::unique_ptr<Opened>> idle_stores_;
};

}  // namespace paceline::agent
