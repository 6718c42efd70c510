#pragma once

// The server end of the bulk channel: reads only requests, and sends only images that its owner
// finds for them. Sending blocks, on the connection's own thread. proven_server.h has the limits.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "paceline/wire/bulk/bulk_format.h"
#include "paceline/wire/bulk/bulk_socket.h"
#include "paceline/wire/bulk/proven_server.h"
#include "paceline/wire/security/credentials.h"

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

  int port() const { return server_->port(); }

 private:
  explicit BulkServer(Source source) : source_(std::move(source)) {}
  absl::Status Serve(BulkSocket* socket) const;
  absl::Status Give(BulkSocket* socket, const BulkImage& image, uint64_t first_chunk) const;

  const Source source_;
  std::atomic<bool> is_ending_ = false;
  std::unique_ptr<ProvenServer> server_;
};

}  // namespace paceline::wire
