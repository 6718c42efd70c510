#include "paceline/sim/checkpoint/peers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/sim/world.h"

namespace paceline::sim {
namespace {

// The values of agent/memory/peer_memory.cc and agent/memory/fetch.cc.
constexpr size_t kFetchersMax = 2;
constexpr uint32_t kRounds = 6;
constexpr Duration kRoundPause = Duration::Milliseconds(300);
constexpr uint32_t kLaterMax = 400;
constexpr uint32_t kNotYetMax = 40;
constexpr Duration kLaterPause = Duration::Milliseconds(50);
constexpr Duration kDialTimeout = Duration::Seconds(5);
constexpr Duration kChunkPatience = Duration::Seconds(30);  // the value of wire/bulk/bulk_server.h
constexpr uint32_t kCopySlots = 2;

bool IsSame(const FetchOrder& a, const FetchOrder& b) {
  return a.saved == b.saved && a.root == b.root && a.sources == b.sources;
}

}  // namespace

std::string SimPeers::address() const {
  return "10.0.0." + std::to_string(node_.index()) + ":" + std::to_string(agent_.incarnation());
}

std::string SimPeers::domain() const { return world_.DomainOf(node_); }

SimArena* SimPeers::CopyOf(Rank rank) const {
  return node_.shelf().Find({node_.name(), rank.value(), true});
}

core::CopiesSeen SimPeers::Seen() const {
  core::CopiesSeen seen;
  for (const auto& [place, arena] : node_.shelf().all()) {
    if (!place.is_copy || place.node != node_.name()) continue;
    for (const SimImage* image : arena.Sealed()) seen.here.insert({Rank(place.rank), image->saved});
  }
  for (const auto& [rank, entry] : entries_) {
    if (entry.problem.empty()) continue;
    seen.failed.push_back({Rank(rank), entry.order.saved, entry.problem});
  }
  return seen;
}

void SimPeers::Take(const std::vector<FetchOrder>& orders, bool drop_others) {
  std::map<uint32_t, Entry> entries;
  std::set<uint64_t> wanted;
  for (const FetchOrder& order : orders) {
    const uint32_t rank = order.rank.value();
    const auto known = entries_.find(rank);
    const bool is_known = known != entries_.end() && IsSame(known->second.order, order);
    entries[rank] = is_known ? known->second : Entry{order, 0, ""};
    wanted.insert(entries[rank].fetch);
  }
  entries_ = std::move(entries);
  std::vector<uint64_t> unwanted;
  for (const auto& [number, fetch] : fetches_) {
    if (!wanted.contains(number)) unwanted.push_back(number);
  }
  for (const uint64_t number : unwanted) Cancel(number);
  for (auto& [rank, entry] : entries_) Start(&entry);
  if (!drop_others) return;
  std::erase_if(node_.shelf().all(), [&](const auto& one) {
    const ArenaPlace& place = one.first;
    return place.is_copy && place.node == node_.name() && !entries_.contains(place.rank);
  });
}

void SimPeers::Start(Entry* entry) {
  const SimArena* copy = CopyOf(entry->order.rank);
  const bool is_here = copy != nullptr && copy->Find(entry->order.saved) != nullptr;
  if (entry->fetch != 0 || !entry->problem.empty() || is_here) return;
  entry->fetch = ++last_;
  fetches_[last_].order = entry->order;
  waiting_.insert(entry->order.is_urgent ? waiting_.begin() : waiting_.end(), last_);
  RunNext();
}

void SimPeers::RunNext() {
  while (!waiting_.empty() && fetches_.size() - waiting_.size() < kFetchersMax) {
    const uint64_t number = waiting_.front();
    waiting_.pop_front();
    After(number, Duration::Microseconds(world_.prng().Between(50, 2'000)), &SimPeers::Ask);
  }
}

void SimPeers::After(uint64_t number, Duration wait, void (SimPeers::*go)(uint64_t, Fetch&)) {
  agent_.Later(wait, [number, go](AgentHost& agent) {
    SimPeers& peers = agent.station().peers();
    const auto found = peers.fetches_.find(number);
    if (found != peers.fetches_.end()) (peers.*go)(number, found->second);
  });
}

// ---- asking ----

// The agent at that address; null if there is none, or it is not the expected one.
AgentHost* SimPeers::Reach(const FetchOrder::Source& source) const {
  for (uint32_t i = 0; i < world_.node_count(); ++i) {
    Node& other = world_.node(i);
    AgentHost* agent = other.agent();
    const bool is_it = other.is_on() && agent != nullptr && !agent->has_ended() &&
                       agent->station().peers().address() == source.address;
    if (!is_it) continue;
    const Network& network = world_.network();
    const bool is_cut = network.IsCut(node_.host(), other.host()) ||
                        network.IsCut(other.host(), node_.host()) || other.is_frozen() ||
                        agent->is_frozen();
    return is_cut ? nullptr : agent;
  }
  return nullptr;
}

SimPeers::Offer SimPeers::Give(const FetchOrder& order, const FetchOrder::Source& source) {
  world_.SyncSaves(node_);
  const SimArena* arena = node_.shelf().Find({source.place, order.rank.value(), source.is_copy});
  const SimImage* image = arena == nullptr ? nullptr : arena->Find(order.saved);
  if (image != nullptr) {
    const bool is_other = order.root != 0 && image->image_root() != order.root;
    return is_other ? Offer{} : Offer{Offer::Kind::kImage, *image, kParts};
  }
  if (!source.is_copy || source.place != node_.name()) return {};
  // The image is being fetched; others may have the parts that are here.
  const auto entry = entries_.find(order.rank.value());
  if (entry == entries_.end() || entry->second.order.saved != order.saved) return {};
  const auto fetch = fetches_.find(entry->second.fetch);
  if (fetch == fetches_.end()) return {};
  if (!fetch->second.has_begun) return {.kind = Offer::Kind::kLater, .image = {}};
  return {Offer::Kind::kImage, fetch->second.image, fetch->second.done};
}

void SimPeers::Claim(const FetchOrder& order, const FetchOrder::Source& source) {
  SimArena* arena = node_.shelf().Find({source.place, order.rank.value(), source.is_copy});
  if (arena != nullptr) arena->BeginRead(order.saved);
}

void SimPeers::Release(const FetchOrder& order, const FetchOrder::Source& source) {
  SimArena* arena = node_.shelf().Find({source.place, order.rank.value(), source.is_copy});
  if (arena != nullptr) arena->EndRead(order.saved);
}

Node* SimPeers::giver() const {
  for (const auto& [number, fetch] : fetches_) {
    if (fetch.giver != nullptr) return fetch.giver;
  }
  return nullptr;
}

void SimPeers::AskNext(uint64_t number, Fetch& fetch, const std::string& why) {
  LetGo(fetch);
  fetch.waits = 0;
  if (++fetch.source < fetch.order.sources.size()) return Ask(number, fetch);
  fetch.source = 0;
  if (++fetch.round >= kRounds) return End(number, why);
  After(number, kRoundPause, &SimPeers::Ask);
}

void SimPeers::Ask(uint64_t number, Fetch& fetch) {
  if (fetch.order.sources.empty()) {
    if (++fetch.round >= kRounds) return End(number, "no host has it any more");
    return After(number, kRoundPause, &SimPeers::Ask);
  }
  const FetchOrder::Source& source = fetch.order.sources[fetch.source];
  if (source.node.empty()) return AskStorage(number);
  AgentHost* giver = Reach(source);
  if (giver == nullptr) {
    // No process listens there any more, or it does not answer.
    const bool is_refused = world_.prng().Chance(1, 2);
    const Duration wait = is_refused ? Duration::Milliseconds(1) : kDialTimeout;
    return After(number, wait, &SimPeers::GiveUpSource);
  }
  const Offer offer = giver->station().peers().Give(fetch.order, source);
  const bool may_come =
      offer.kind == Offer::Kind::kNotHere && fetch.order.root == 0 && fetch.waits < kNotYetMax;
  const bool is_behind = offer.kind == Offer::Kind::kImage && offer.parts <= fetch.done;
  if (offer.kind == Offer::Kind::kLater || may_come || is_behind) {
    if (++fetch.waits >= kLaterMax) {
      return AskNext(number, fetch, source.node + ": it waits for somebody itself");
    }
    return After(number, kLaterPause, &SimPeers::Ask);
  }
  if (offer.kind == Offer::Kind::kNotHere) {
    return AskNext(number, fetch, source.node + ": it does not have it in memory any more");
  }
  if (!Begin(fetch, offer.image)) {
    return AskNext(number, fetch, source.node + ": it has another image of that step");
  }
  LetGo(fetch);
  if (offer.parts == kParts) {
    giver->station().peers().Claim(fetch.order, source);
    fetch.giver = &giver->node();
    fetch.giver_agent = giver->incarnation();
  }
  AwaitTaker(number, fetch);
  After(number, PartTime(fetch), &SimPeers::TakePart);
}

void SimPeers::GiveUpSource(uint64_t number, Fetch& fetch) {
  AskNext(number, fetch, fetch.order.sources[fetch.source].node + ": nobody answers there");
}

// Makes room for the image, once.
bool SimPeers::Begin(Fetch& fetch, const SimImage& image) {
  if (fetch.has_begun) return fetch.image.content == image.content;
  SimArena& copy =
      node_.shelf().OpenOrMake({node_.name(), fetch.order.rank.value(), true}, kCopySlots);
  copy.ForgetUnfinished();
  const std::optional<uint32_t> slot = copy.Begin(fetch.order.saved);
  if (!slot.has_value()) return false;
  fetch.has_begun = true;
  fetch.slot = *slot;
  fetch.image = image;
  fetch.image.is_flipped = false;  // each received part is compared with its hash
  return true;
}

Duration SimPeers::PartTime(const Fetch& fetch) {
  const SaveOptions& saves = world_.options().saves;
  const Duration whole = Duration::Nanoseconds(
      world_.prng().Between(saves.copy_min.nanoseconds(), saves.copy_max.nanoseconds()));
  // A fetch that no rank waits for uses half of the link.
  return fetch.order.is_urgent ? whole / kParts : whole / kParts * 2;
}

// A taker that was frozen or cut off must not keep an image for ever.
void SimPeers::AwaitTaker(uint64_t number, Fetch& fetch) {
  world_.queue().After(kChunkPatience, [&node = node_, incarnation = agent_.incarnation(), number,
                                        part = ++fetch.parts_asked] {
    AgentHost* agent = node.AgentOf(incarnation);
    if (agent == nullptr) return;
    SimPeers& peers = agent->station().peers();
    const auto found = peers.fetches_.find(number);
    if (found == peers.fetches_.end() || found->second.parts_asked != part) return;
    MARK("a giver waits no longer");
    peers.LetGo(found->second);
  });
}

void SimPeers::TakePart(uint64_t number, Fetch& fetch) {
  const FetchOrder::Source& source = fetch.order.sources[fetch.source];
  AgentHost* giver = Reach(source);
  if (giver == nullptr) {
    MARK("a giver was lost in the middle");
    return AskNext(number, fetch, source.node + ": the connection broke");
  }
  const Offer offer = giver->station().peers().Give(fetch.order, source);
  if (offer.kind != Offer::Kind::kImage || offer.parts <= fetch.done) return Ask(number, fetch);
  // Each part is compared with its hash.
  if (offer.image.is_flipped) {
    if (world_.options().canary != Canary::kTrustCopies) {
      MARK("a part came damaged");
      return AskNext(number, fetch, source.node + ": a chunk came damaged");
    }
    fetch.image.content = MixContent(fetch.image.content, 0xbad);
  }
  ++fetch.done;
  if (fetch.done == kParts) return End(number, "");
  AwaitTaker(number, fetch);
  After(number, PartTime(fetch), &SimPeers::TakePart);
}

void SimPeers::AskStorage(uint64_t number) {
  const SaveOptions& saves = world_.options().saves;
  After(number,
        Duration::Nanoseconds(
            world_.prng().Between(saves.read_min.nanoseconds(), saves.read_max.nanoseconds())),
        &SimPeers::Stored);
}

void SimPeers::Stored(uint64_t number, Fetch& fetch) {
  Storage& storage = world_.storage();
  // The step is decided, so the fetch waits for storage.
  if (storage.is_stalled || storage.is_away) return After(number, kRoundPause, &SimPeers::Stored);
  const auto folder = storage.folders().find(fetch.order.name);
  const uint32_t size = folder != storage.folders().end() && folder->second.manifest.has_value()
                            ? folder->second.manifest->world_size
                            : 0;
  std::vector<SimImage> images;
  const Storage::Read read = storage.ReadFor(fetch.order.name, fetch.order.rank.value(), size,
                                             /*is_fetched=*/false, &images);
  if (read != Storage::Read::kWhole || !Begin(fetch, images.front())) {
    return AskNext(number, fetch, fetch.order.name + " cannot be read");
  }
  fetch.done = kParts;
  End(number, "");
}

// ---- the end ----

void SimPeers::LetGo(Fetch& fetch) {
  Node* const giver = std::exchange(fetch.giver, nullptr);
  if (giver == nullptr) return;
  // A new agent there has no claims.
  AgentHost* agent = giver->AgentOf(fetch.giver_agent);
  if (agent == nullptr) return;
  agent->station().peers().Release(fetch.order, fetch.order.sources[fetch.source]);
}

void SimPeers::Drop() {
  for (auto& [number, fetch] : fetches_) LetGo(fetch);
  fetches_.clear();
  waiting_.clear();
}

void SimPeers::Cancel(uint64_t number) {
  const auto found = fetches_.find(number);
  if (found == fetches_.end()) return;
  LetGo(found->second);
  if (SimArena* copy = CopyOf(found->second.order.rank); copy != nullptr) copy->ForgetUnfinished();
  fetches_.erase(found);
  std::erase(waiting_, number);
  RunNext();
}

void SimPeers::End(uint64_t number, const std::string& problem) {
  Fetch& fetch = fetches_.at(number);
  const uint32_t rank = fetch.order.rank.value();
  if (problem.empty()) {
    MARK("an image was copied");
    SimArena* copy = CopyOf(fetch.order.rank);
    fetch.image.sealed_at = world_.queue().now();
    if (copy != nullptr) copy->Seal(fetch.slot, fetch.image);
    world_.trace().Add(world_.queue().now(), node_.name(), "copied", rank);
  }
  const auto entry = entries_.find(rank);
  if (entry != entries_.end() && entry->second.fetch == number) {
    entry->second.fetch = 0;
    entry->second.problem = problem;
  }
  Cancel(number);
  agent_.station().SeeCopies();
}

}  // namespace paceline::sim
