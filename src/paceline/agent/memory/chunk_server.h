#pragma once

// Serves chunks of storage to ranks of this node, if several hosts share the reading:
// docs/formats/chunk_socket.md. A Unix socket for processes of the same user, with one thread a
// connection, because loading a chunk blocks. The number of connections is bounded.

#include <sys/eventfd.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "paceline/agent/memory/chunk_cache.h"
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
  // Closes all connections and waits for their threads.
  ~ChunkServer();
  ChunkServer(const ChunkServer&) = delete;
  ChunkServer& operator=(const ChunkServer&) = delete;

  const std::string& path() const { return path_; }

 private:
  struct Session {
    Fd fd;
    std::atomic<bool> is_done = false;
    std::thread thread;
  };

  ChunkServer(std::string path, Fd fd, Source source)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        source_(std::move(source)) {}
  void Accept();
  void Take();
  void Serve(const Fd& fd) const;

  const std::string path_;
  const Fd fd_;
  const Fd stop_;  // readable when the threads must end
  const Source source_;
  std::list<Session> sessions_;  // of the accepting thread, then of the destructor
  std::thread thread_;
};

}  // namespace paceline::agent
