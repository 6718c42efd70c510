#include "paceline/agent/memory/chunk_peers.h"

#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::agent {
namespace {

constexpr Duration kReaderAwayPause = Duration::Seconds(10);
// The reader may learn its role later than its peers, so they ask again.
constexpr int kReaderLaterMax = 40;
constexpr std::chrono::milliseconds kReaderLaterPause{50};

}  // namespace

Result<HeldChunk> ChunkPeers::Ask(const StorageReader& reader, const StoredChunk& chunk) {
  std::unique_lock lock(mutex_);
  Links& links = links_[reader.address];
  freed_.wait(lock, [&links] { return links.in_use < kLinksMax; });
  if (MonotonicNs() < links.away_until_ns) {
    return Failure{FailureKind::kBusy, reader.node + " did not answer a moment ago"};
  }
  ++links.in_use;
  std::unique_ptr<wire::BulkClient> client;
  if (!links.idle.empty()) {
    client = std::move(links.idle.back());
    links.idle.pop_back();
  }
  lock.unlock();
  Result<HeldChunk> taken = Failure{FailureKind::kBusy, ""};
  if (client != nullptr) taken = AskOver(client.get(), chunk);
  // Dial: there is no connection, or the other side closed it because it was idle for long.
  if (!taken.ok() && taken.failure().kind == FailureKind::kBusy) {
    Result<std::unique_ptr<wire::BulkClient>> dialled = Dial(reader);
    client = dialled.ok() ? *std::move(dialled) : nullptr;
    taken = client == nullptr ? dialled.failure() : AskOver(client.get(), chunk);
  }
  lock.lock();
  --links.in_use;
  if (!taken.ok() && taken.failure().kind == FailureKind::kBusy) {
    links.away_until_ns = MonotonicNs() + kReaderAwayPause.nanoseconds();
  } else {
    links.idle.push_back(std::move(client));
  }
  freed_.notify_all();
  return taken;
}

Result<std::unique_ptr<wire::BulkClient>> ChunkPeers::Dial(const StorageReader& reader) {
  auto dialled = wire::BulkClient::Dial({reader.address, reader.node}, credentials_, *tls_,
                                        wire::BulkClient::kDialTimeout);
  if (dialled.ok()) return *std::move(dialled);
  return Failure{FailureKind::kBusy, std::string(Text(dialled.status()))};
}

// kBusy: the connection is unusable now.
Result<HeldChunk> ChunkPeers::AskOver(wire::BulkClient* client, const StoredChunk& chunk) {
  wire::BulkRequest request;
  request.stored = chunk;
  auto answer = client->Ask(request);
  for (int i = 0; i < kReaderLaterMax && answer.ok(); ++i) {
    if (answer->kind != wire::BulkAnswer::Kind::kLater) break;
    std::this_thread::sleep_for(kReaderLaterPause);
    answer = client->Ask(request);
  }
  if (!answer.ok()) return Failure{FailureKind::kBusy, std::string(Text(answer.status()))};
  if (answer->kind != wire::BulkAnswer::Kind::kImage) {
    return Failure{FailureKind::kNotFound, answer->why};
  }
  const uint64_t bytes = chunk.bytes();
  if (answer->facts.file_bytes != bytes || answer->facts.notes_bytes != 0) {
    return Failure{FailureKind::kBusy, "it gives something else than was asked for"};
  }
  auto taken = std::make_shared<ChunkBytes>(bytes);
  const absl::Status read = client->Read(taken->data.get(), bytes, wire::BulkClient::kReadTimeout);
  if (!read.ok()) return Failure{FailureKind::kBusy, std::string(Text(read))};
  if (ckpt::HashOf(taken->data.get(), bytes) != chunk.hash) {
    return Failure{FailureKind::kDamaged, "what came is not what was saved"};
  }
  return HeldChunk(std::move(taken));
}

void ChunkPeers::Reset() {
  std::vector<std::unique_ptr<wire::BulkClient>> clients;  // closed outside the lock
  const std::lock_guard lock(mutex_);
  for (auto& [address, links] : links_) {
    links.away_until_ns = 0;
    std::move(links.idle.begin(), links.idle.end(), std::back_inserter(clients));
    links.idle.clear();
  }
}

}  // namespace paceline::agent
