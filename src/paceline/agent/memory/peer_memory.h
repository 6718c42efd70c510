#pragma once

// Exchanges checkpoint images between the memory of this host and other hosts of the job, over the
// bulk channel. (Chunks of storage use the same channel: SharedReading.) It executes the master's
// fetch orders, which alone say which copies must be here; core/checkpoint/replication.h and
// core/checkpoint/restore.h decide.
//
// Runs on the loop's thread, except for the server's threads, which only claim and send, and the
// fetching threads, each of which fills one image.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/agent/memory/incoming_image.h"
#include "paceline/agent/memory/shared_reading.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/ckpt/store/stores.h"
#include "paceline/model/checkpoint.h"
#include "paceline/wire/bulk/bulk_server.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

class PeerMemory {
 public:
  struct Setup {
    std::string node;
    std::string host;  // address of this host for other nodes
    wire::Credentials credentials;
    ckpt::StoreHost store_host = {};
    std::string local_tier = {};  // folder on the local disk; "": none
  };

  // `shelf` and `reactor` must outlive it. The loop calls `changed` when a fetch has ended.
  static absl::StatusOr<std::unique_ptr<PeerMemory>> Start(Reactor& reactor, ArenaShelf* shelf,
                                                           Setup setup,
                                                           std::function<void()> changed);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // HOST:PORT.
  const std::string& address() const { return address_; }
  SharedReading& reading() { return *reading_; }

  // `directory` has the checkpoints in storage, for orders with storage as a source.
  void Take(const std::vector<FetchOrder>& orders, bool drop_others, const std::string& directory);
  bool Has(Rank rank, SavedStep saved) const;
  // Failures of the current orders.
  std::vector<FetchFailure> Failures() const;

 private:
  // An order and its progress. One fetch a rank at a time fills the rank's arena.
  struct Entry {
    FetchOrder order;
    std::shared_ptr<IncomingImage> incoming;  // owners: this, the fetching thread, the server
    std::string problem;
    int64_t began_ns = 0;
  };
  struct Task {
    std::shared_ptr<IncomingImage> incoming;
    std::string directory;
  };

  PeerMemory(Reactor& reactor, ArenaShelf* shelf, Setup setup, std::function<void()> changed);
  wire::BulkImage Give(const wire::BulkRequest& request);
  wire::BulkImage GiveChunk(const StoredChunk& chunk);
  void Start(Entry* entry);
  void Work();
  void OnEnded(const std::shared_ptr<IncomingImage>& incoming, const std::string& problem);

  Reactor& reactor_;
  ArenaShelf* const shelf_;
  const Setup setup_;
  const std::function<void()> changed_;
  std::unique_ptr<wire::BulkTls> tls_;
  std::unique_ptr<SharedReading> reading_;
  std::string address_;
  std::string directory_;
  std::map<uint32_t, Entry> entries_;  // by rank
  // Being filled now, including unwanted ones that have not ended yet.
  std::map<uint32_t, std::shared_ptr<IncomingImage>> filling_;

  std::mutex mutex_;  // guards the four below
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  std::map<std::pair<uint32_t, SavedStep>, std::shared_ptr<IncomingImage>> offered_;
  bool is_ending_ = false;

  // False when this object is gone: posted work checks it.
  const std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  std::vector<std::thread> threads_;
  std::unique_ptr<wire::BulkServer> server_;  // its threads call Give
};

}  // namespace paceline::agent
