#pragma once

// Serves chunks of storage to ranks of this node, if several hosts share the reading:
// docs/formats/chunk_socket.md. Loading a chunk blocks its connection's thread.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/agent/memory/chunk_cache.h"
#include "paceline/agent/socket/local_server.h"
#include "paceline/base/fd.h"
#include "paceline/base/result.h"
#include "paceline/model/stored_chunk.h"

namespace paceline::agent {

class ChunkServer {
 public:
  static constexpr size_t kConnectionsMax = 256;
  // Called concurrently by the connections' threads.
  using Source = std::function<Result<HeldChunk>(const StoredChunk&)>;

  // Replaces a listener at `path`, which belonged to a dead agent.
  static absl::StatusOr<std::unique_ptr<ChunkServer>> Listen(const std::string& path,
                                                             Source source);
  const std::string& path() const { return server_->path(); }

 private:
  explicit ChunkServer(Source source) : source_(std::move(source)) {}
  void Serve(const Fd& fd) const;

  const Source source_;
  std::unique_ptr<LocalServer> server_;  // its threads call Serve
};

}  // namespace paceline::agent
