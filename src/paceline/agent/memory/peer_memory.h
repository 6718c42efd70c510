#pragma once

// What this host gives to other hosts of the job from its memory, and takes from theirs: images of
// checkpoints, over the bulk channel. (Chunks of storage go the same way: SharedReading.) It
// carries out the master's fetch orders, which are the whole truth of which copies shall be here;
// core/checkpoint/replication.h and core/checkpoint/restore.h decide.
//
// Everything runs on the loop's thread but the server's threads, which only claim and send, and the
// fetching threads, of which each fills one image at a time.

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
    std::string host;  // where other nodes reach this one
    wire::Credentials credentials;
    ckpt::StoreHost store_host = {};
    std::string local_tier = {};  // folder on the local disk; "": none
  };

  // `shelf` and `reactor` outlive it. `changed` runs on the loop when a fetch has ended.
  static absl::StatusOr<std::unique_ptr<PeerMemory>> Start(Reactor& reactor, ArenaShelf* shelf,
                                                           Setup setup,
                                                           std::function<void()> changed);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // HOST:PORT.
  const std::string& address() const { return address_; }
  SharedReading& reading() { return *reading_; }

  // `directory` of checkpoints in storage, for orders that name it as a source.
  void Take(const std::vector<FetchOrder>& orders, bool drop_others, const std::string& directory);
  bool Has(Rank rank, SavedStep saved) const;
  // Of the orders that stand.
  std::vector<FetchFailure> Failures() const;

 private:
  // An order and how far it is. At most one fetch a rank fills its arena at a time.
  struct Entry {
    FetchOrder order;
    std::shared_ptr<IncomingImage> incoming;  // owners: this, the fetching thread, the server's
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
  // Filled just now, also what is not wanted any more and has not ended yet.
  std::map<uint32_t, std::shared_ptr<IncomingImage>> filling_;

  std::mutex mutex_;  // guards the four below
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  std::map<std::pair<uint32_t, SavedStep>, std::shared_ptr<IncomingImage>> offered_;
  bool is_ending_ = false;

  // What threads post may run when this has gone.
  const std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  std::vector<std::thread> threads_;
  std::unique_ptr<wire::BulkServer> server_;  // its threads call Give
};

}  // namespace paceline::agent
