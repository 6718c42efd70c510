#pragma once

// The server end of the bulk channel: reads only requests, and sends only images that its owner
// finds for them. One thread a connection, because sending blocks; their number is bounded.
//
// A client that does not prove the job's token within kProofPatience is disconnected without an
// answer. If all places are taken, a new connection replaces the oldest unproven one. If all are
// proven, the new one is closed, and its client asks again.

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
#include "paceline/wire/bulk/channel_proof.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/server/listener.h"

namespace paceline::wire {

// An image to send, and where its bytes are.
struct BulkImage {
  BulkAnswer answer;
  std::span<const std::byte> file;
  std::span<const std::byte> notes;
  // Waits until the chunk is there; false: it will not come. Null: all chunks are there.
  std::function<bool(size_t chunk)> await;
  std::shared_ptr<void> keep;  // keeps the bytes alive; owners: this value and its source
};

class BulkServer {
 public:
  // Some for images, and two from each host that shares the reading of storage with this one.
  static constexpr size_t kConnectionsMax = 192;
  static constexpr std::chrono::seconds kIdlePatience{60};
  // Until the client has received a chunk.
  static constexpr std::chrono::seconds kChunkPatience{30};

  // Called concurrently on the server's threads.
  using Source = std::function<BulkImage(const BulkRequest&)>;

  // `listen`: HOST:PORT, port 0: any. FAILED_PRECONDITION: other hosts could reach it, and there
  // are no certificates. The process must ignore SIGPIPE.
  static absl::StatusOr<std::unique_ptr<BulkServer>> Start(const std::string& listen,
                                                           const Credentials& credentials,
                                                           Source source);
  // Closes all connections and waits for their threads.
  ~BulkServer();
  BulkServer(const BulkServer&) = delete;
  BulkServer& operator=(const BulkServer&) = delete;

  int port() const { return listener_->port(); }

 private:
  struct Session {
    Fd handle;  // a second descriptor of the socket, for shutdown
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
  std::mutex mutex_;             // guards the sessions, except their threads
  std::list<Session> sessions_;  // oldest first
  std::unique_ptr<Listener> listener_;
};

}  // namespace paceline::wire
