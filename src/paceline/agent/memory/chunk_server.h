#pragma once

// Where ranks of this node ask for chunks of storage that several hosts share the reading of:
// docs/formats/chunk_socket.md. A Unix socket for processes of the same user; a thread a
// connection, because bringing a chunk blocks. Their number is bounded.

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
  // Called on the connections' threads, several at a time.
  using Source = std::function<Result<HeldChunk>(const StoredChunk&)>;

  // Whoever listened at `path` before, an agent that died, no longer does.
  static absl::StatusOr<std::unique_ptr<ChunkServer>> Listen(const std::string& path,
                                                             Source source);
  // Cuts all connections off and waits for their threads.
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
  const Fd stop_;  // readable when the threads shall end
  const Source source_;
  std::list<Session> sessions_;  // the accepting thread's, and after it the destructor's
  std::thread thread_;
};

}  // namespace paceline::agent
