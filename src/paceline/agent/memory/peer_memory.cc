#include "paceline/agent/memory/peer_memory.h"

#include <pthread.h>

#include <array>
#include <set>

#include "paceline/agent/memory/fetch.h"
#include "paceline/base/host_text.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

// Concurrent fetches. More would share the same link.
constexpr size_t kFetchersMax = 2;

// A chunk for a test of the link. Never written, so the kernel maps one page of zeros for all.
std::array<std::byte, wire::kBulkChunkBytes> test_bytes;

wire::BulkImage GiveTestChunk() {
  wire::BulkImage given;
  given.answer.kind = wire::BulkAnswer::Kind::kImage;
  given.answer.facts.file_bytes = test_bytes.size();
  given.answer.facts.hashes = {0};
  given.file = test_bytes;
  return given;
}

bool IsSame(const FetchOrder& a, const FetchOrder& b) {
  return a.saved == b.saved && a.root == b.root && a.sources == b.sources;
}

}  // namespace

PeerMemory::PeerMemory(Reactor& reactor, ArenaShelf* shelf, Setup setup,
                       std::function<void()> changed)
    : reactor_(reactor), shelf_(shelf), setup_(std::move(setup)), changed_(std::move(changed)) {}

absl::StatusOr<std::unique_ptr<PeerMemory>> PeerMemory::Start(Reactor& reactor, ArenaShelf* shelf,
                                                              Setup setup,
                                                              std::function<void()> changed) {
  std::unique_ptr<PeerMemory> made(
      new PeerMemory(reactor, shelf, std::move(setup), std::move(changed)));
  PeerMemory* const raw = made.get();
  ASSIGN_OR_RETURN(made->tls_, wire::BulkTls::Make(made->setup_.credentials));
  made->reading_ = std::make_unique<SharedReading>(
      reactor, made->tls_.get(),
      SharedReading::Setup{made->setup_.node, made->setup_.credentials, made->setup_.store_host});
  const std::string host = Bracketed(made->setup_.host);
  ASSIGN_OR_RETURN(made->server_, wire::BulkServer::Start(
                                      host + ":0", made->setup_.credentials,
                                      [raw](const auto& request) { return raw->Give(request); }));
  made->address_ = Concat(host, ":", made->server_->port());
  for (size_t i = 0; i < kFetchersMax; ++i) {
    made->threads_.emplace_back([raw] { raw->Work(); });
    ::pthread_setname_np(made->threads_.back().native_handle(), "fetch");
  }
  return made;
}

PeerMemory::~PeerMemory() {
  for (const auto& [rank, incoming] : filling_) incoming->Cancel();
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    for (const Task& task : tasks_) task.incoming->Cancel();
  }
  wake_.notify_all();
  server_.reset();
  for (std::thread& thread : threads_) thread.join();
}

// Gives a chunk as an image with one chunk.
wire::BulkImage PeerMemory::GiveChunk(const StoredChunk& chunk) {
  wire::BulkImage given;
  if (!reading_->is_on()) {
    given.answer.kind = wire::BulkAnswer::Kind::kLater;
    given.answer.why = "it has not heard that it reads for others";
    return given;
  }
  const Result<HeldChunk> held = reading_->Read(chunk);
  if (!held.ok()) {
    given.answer.why = held.failure().message;
    return given;
  }
  given.answer.kind = wire::BulkAnswer::Kind::kImage;
  given.answer.facts.file_bytes = (*held)->size;
  given.answer.facts.hashes = {chunk.hash};
  given.file = (*held)->span();
  given.keep = std::const_pointer_cast<ChunkBytes>(*held);
  return given;
}

wire::BulkImage PeerMemory::Give(const wire::BulkRequest& request) {
  if (request.is_test) return GiveTestChunk();
  if (request.stored.has_value()) return GiveChunk(*request.stored);
  const ArenaShelf::Place place{request.place, request.rank.value(), request.is_copy};
  wire::BulkImage given;
  if (const auto claim = shelf_->Claim(place, request.saved); claim != nullptr) {
    const ckpt::Arena& arena = *claim->arena;
    const ArenaImage& image = claim->image;
    if (request.root != 0 && image.root != request.root) {
      given.answer.why = "it has another image of that step";
      return given;
    }
    given.answer.kind = wire::BulkAnswer::Kind::kImage;
    given.answer.facts = {.world_size = image.world_size,
                          .file_bytes = image.file_bytes,
                          .head_bytes = image.head_bytes,
                          .notes_bytes = image.notes_bytes,
                          .root = image.root,
                          .flags = image.flags,
                          .hashes = arena.FileHashesOf(image)};
    const std::vector<uint64_t> notes = arena.NotesHashesOf(image);
    given.answer.facts.hashes.insert(given.answer.facts.hashes.end(), notes.begin(), notes.end());
    given.file = arena.FileOf(image);
    given.notes = arena.NotesOf(image);
    given.keep = std::const_pointer_cast<ImageClaim>(claim);
    return given;
  }
  given.answer.why = Concat("it does not have step ", request.saved.step, " of rank ",
                            request.rank.value(), " in memory any more");
  if (!request.is_copy || request.place != setup_.node) return given;
  std::shared_ptr<IncomingImage> incoming;
  {
    const std::lock_guard lock(mutex_);
    const auto found = offered_.find({request.rank.value(), request.saved});
    if (found == offered_.end()) return given;
    incoming = found->second;
  }
  return incoming->Offer();
}

bool PeerMemory::Has(Rank rank, SavedStep saved) const {
  const auto arena = shelf_->Find({setup_.node, rank.value(), true});
  if (arena == nullptr) return false;
  for (const ArenaImage& image : arena->Sealed()) {
    if (image.saved() == saved) return true;
  }
  return false;
}

std::vector<FetchFailure> PeerMemory::Failures() const {
  std::vector<FetchFailure> failures;
  for (const auto& [rank, entry] : entries_) {
    if (!entry.problem.empty()) failures.push_back({Rank(rank), entry.order.saved, entry.problem});
  }
  return failures;
}

void PeerMemory::Take(const std::vector<FetchOrder>& orders, bool drop_others,
                      const std::string& directory) {
  directory_ = directory;
  std::map<uint32_t, Entry> entries;
  std::set<uint32_t> ranks;
  for (const FetchOrder& order : orders) {
    const uint32_t rank = order.rank.value();
    ranks.insert(rank);
    const auto known = entries_.find(rank);
    if (known != entries_.end() && IsSame(known->second.order, order)) {
      entries[rank] = std::move(known->second);
    } else {
      entries[rank] = Entry{.order = order, .incoming = nullptr, .problem = ""};
    }
  }
  entries_ = std::move(entries);
  for (auto& [rank, incoming] : filling_) {
    const auto wanted = entries_.find(rank);
    const bool is_wanted =
        wanted != entries_.end() && wanted->second.order.saved == incoming->order().saved;
    if (!is_wanted) incoming->Cancel();
  }
  for (auto& [rank, entry] : entries_) Start(&entry);
  if (drop_others) shelf_->RemoveCopies(setup_.node, ranks);
}

void PeerMemory::Start(Entry* entry) {
  const FetchOrder& order = entry->order;
  const uint32_t rank = order.rank.value();
  if (entry->incoming != nullptr || !entry->problem.empty() || filling_.contains(rank) ||
      Has(order.rank, order.saved)) {
    return;
  }
  const ArenaShelf::Place place{setup_.node, rank, true};
  if (const absl::Status made = shelf_->Prepare(place); !made.ok()) {
    entry->problem = Text(made);
    reactor_.Post([this, alive = std::weak_ptr<bool>(is_alive_)] {
      if (!alive.expired()) changed_();
    });
    return;
  }
  entry->began_ns = MonotonicNs();
  entry->incoming = std::make_shared<IncomingImage>(
      IncomingImage::Place{shelf_->PathOf(place),
                           {shelf_->job_id(), shelf_->boot_id(), rank},
                           [shelf = shelf_](uint64_t bytes) { return shelf->LackingFor(bytes); },
                           shelf_->Find(place)},
      order);
  filling_[rank] = entry->incoming;
  {
    const std::lock_guard lock(mutex_);
    offered_[{rank, order.saved}] = entry->incoming;
    tasks_.insert(order.is_urgent ? tasks_.begin() : tasks_.end(), {entry->incoming, directory_});
  }
  wake_.notify_one();
}

void PeerMemory::Work() {
  OpenedStore store(setup_.store_host);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
    if (is_ending_) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    const std::string problem =
        Fetch(task.incoming.get(),
              {setup_.credentials, tls_.get(), task.directory, &store, setup_.local_tier});
    reactor_.Post(
        [this, alive = std::weak_ptr<bool>(is_alive_), incoming = task.incoming, problem] {
          if (!alive.expired()) OnEnded(incoming, problem);
        });
    lock.lock();
  }
}

void PeerMemory::OnEnded(const std::shared_ptr<IncomingImage>& incoming,
                         const std::string& problem) {
  const FetchOrder& order = incoming->order();
  const uint32_t rank = order.rank.value();
  shelf_->Refresh();
  filling_.erase(rank);
  {
    const std::lock_guard lock(mutex_);
    offered_.erase({rank, order.saved});
  }
  const auto entry = entries_.find(rank);
  const bool is_current = entry != entries_.end() && entry->second.incoming == incoming;
  const int64_t began = is_current ? entry->second.began_ns : MonotonicNs();
  LogInfo("image_fetched", {{"rank", rank},
                            {"generation", order.saved.generation},
                            {"step", order.saved.step},
                            {"branch", order.saved.branch},
                            {"from", incoming->from()},
                            {"ms", (MonotonicNs() - began) / 1'000'000},
                            {"problem", problem}});
  if (is_current) {
    entry->second.incoming.reset();
    entry->second.problem = problem;
  } else if (entry != entries_.end()) {
    Start(&entry->second);  // it had to wait for this one
  }
  changed_();
}

}  // namespace paceline::agent
