#pragma once

// Gets chunks of storage from the hosts that read them. Keeps a few connections to each host.
// Thread-safe; calls block.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/agent/memory/chunk_cache.h"
#include "paceline/base/result.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/stored_chunk.h"
#include "paceline/wire/bulk/bulk_client.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

class ChunkPeers {
 public:
  // Connections to one host.
  static constexpr size_t kLinksMax = 2;

  // `tls` must outlive this object.
  ChunkPeers(wire::Credentials credentials, const wire::BulkTls* tls)
      : credentials_(std::move(credentials)), tls_(tls) {}

  // The chunk, verified. kBusy: the reader does not answer, and is not asked again for ten seconds.
  // Other failures: it answers but cannot give the chunk.
  Result<HeldChunk> Ask(const StorageReader& reader, const StoredChunk& chunk);
  // Closes idle connections, and asks unreachable readers again.
  void Reset();

 private:
  struct Links {
    size_t in_use = 0;
    std::vector<std::unique_ptr<wire::BulkClient>> idle;
    int64_t away_until_ns = 0;
  };

  Result<HeldChunk> AskOver(wire::BulkClient* client, const StoredChunk& chunk);
  Result<std::unique_ptr<wire::BulkClient>> Dial(const StorageReader& reader);

  const wire::Credentials credentials_;
  const wire::BulkTls* const tls_;
  std::mutex mutex_;  // guards the links
  std::condition_variable freed_;
  std::map<std::string, Links> links_;  // by address; entries stay
};

}  // namespace paceline::agent
