#pragma once

// The giving side of the bulk channel: reads nothing but requests, gives nothing but images that
// its owner finds for them. A thread a connection, because sending blocks; their number is bounded.
//
// Whoever does not prove that he knows the job's token within kProofPatience is cut off without a
// word. When all places are taken a new connection takes that of the oldest one that has not proved
// it yet; when all have, the new one is cut off and its owner asks again.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "paceline/base/fd.h"
#include "paceline/wire/bulk/bulk_format.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/security/channel_proof.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/server/listener.h"

namespace paceline::wire {

// An image that may be given, and where its bytes are.
struct BulkImage {
  BulkAnswer answer;
  std::span<const std::byte> file;
  std::span<const std::byte> notes;
  // Blocks until the chunk is there; false: it will not be. None: all are.
  std::function<bool(size_t chunk)> await;
  std::shared_ptr<void> keep;  // owners: this value and whoever gave it; the bytes stay till then
};

class BulkServer {
 public:
  // Some for images, and two from each host that shares the reading of storage with this one.
  static constexpr size_t kConnectionsMax = 192;
  static constexpr std::chrono::seconds kIdlePatience{60};
  // For a chunk to be taken.
  static constexpr std::chrono::seconds kChunkPatience{30};

  // Called on the server's threads, several at a time.
  using Source = std::function<BulkImage(const BulkRequest&)>;

  // `listen`: HOST:PORT, port 0: any. FAILED_PRECONDITION: others could reach it, and there are no
  // certificates. The process shall ignore SIGPIPE.
  static absl::StatusOr<std::unique_ptr<BulkServer>> Start(const std::string& listen,
                                                           const Credentials& credentials,
                                                           Source source);
  // Cuts all connections off and waits for their threads.
  ~BulkServer();
  BulkServer(const BulkServer&) = delete;
  BulkServer& operator=(const BulkServer&) = delete;

  int port() const { return listener_->port(); }

 private:
  struct Session {
    Fd handle;  // of the same socket, to shut it down by
    bool is_proven = false;
    bool is_done = false;
    std::thread thread;
  };

  BulkServer(Credentials credentials, Source source)
      : credentials_(std::move(credentials)), source_(std::move(source)) {}
  void Take(Connection connection);
  bool MakeRoom();
  absl::Status Serve(Session* session, Fd fd);
  absl::Status Give(BulkSocket* socket, const BulkImage& image, uint64_t first_chunk) const;
  void Reap();

  const Credentials credentials_;
  const Source source_;
  std::unique_ptr<BulkTls> tls_;
  std::atomic<bool> is_ending_ = false;
  std::mutex mutex_;             // guards the list and its words, but the threads
  std::list<Session> sessions_;  // in the order in which they came
  std::unique_ptr<Listener> listener_;
};

}  // namespace paceline::wire
