#include "paceline/sim/network.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "paceline/base/mark.h"

namespace paceline::sim {
namespace {

constexpr Duration kRetransmit = Duration::Milliseconds(200);
constexpr int kLossesMax = 5;

}  // namespace

Network::Network(EventQueue& queue, Prng prng, const LinkQuality& link)
    : queue_(queue), prng_(prng), link_(link) {}

const LinkQuality& Network::LinkOf(HostIndex node) const {
  const auto it = links_.find(node);
  return it == links_.end() ? link_ : it->second;
}

Duration Network::DrawLatency(HostIndex node) {
  const LinkQuality& link = LinkOf(node);
  Duration latency = Duration::Nanoseconds(
      prng_.Between(link.latency_min.nanoseconds(), link.latency_max.nanoseconds()));
  if (link.loss_permille == 0) return latency;
  Duration wait = kRetransmit;
  for (int i = 0; i < kLossesMax && prng_.Chance(link.loss_permille, 1000); ++i) {
    latency += wait;
    wait = wait * 2;
  }
  return latency;
}

const Network::Connection* Network::Find(ConnectionId id) const {
  const bool is_known = id != ConnectionId() && id.value() <= connections_.size();
  return is_known ? connections_[id.value() - 1].get() : nullptr;
}

Network::Connection* Network::Find(ConnectionId id) {
  return const_cast<Connection*>(std::as_const(*this).Find(id));
}

Network::Pipe& Network::PipeTo(Connection& connection, End end) {
  return end == End::kAgent ? connection.to_agent : connection.to_master;
}

std::pair<HostIndex, HostIndex> Network::Path(const Connection& connection, End to) const {
  return to == End::kAgent ? std::pair{kMasterHost, connection.ends.agent_host}
                           : std::pair{connection.ends.agent_host, kMasterHost};
}

ConnectionId Network::Open(Ends ends) {
  connections_.push_back(std::make_unique<Connection>(Connection{std::move(ends), {}, {}, false}));
  return ConnectionId(connections_.size());
}

bool Network::IsOpen(ConnectionId id, End end) const {
  const Connection* connection = Find(id);
  if (connection == nullptr) return false;
  return end == End::kAgent ? connection->to_agent.open : connection->to_master.open;
}

const Network::Ends* Network::EndsOf(ConnectionId id) const {
  const Connection* connection = Find(id);
  return connection == nullptr ? nullptr : &connection->ends;
}

void Network::Send(ConnectionId id, End to, Task deliver) {
  Connection* connection = Find(id);
  const End from = to == End::kAgent ? End::kMaster : End::kAgent;
  if (connection == nullptr || !PipeTo(*connection, from).open) return;
  const auto [source, target] = Path(*connection, to);
  Pipe& pipe = PipeTo(*connection, to);
  const uint64_t number = ++pipe.sent;
  if (IsCut(source, target)) {
    pipe.held.emplace(number, std::move(deliver));
    return;
  }
  Schedule(id, *connection, to, {number, std::move(deliver)});
}

void Network::Schedule(ConnectionId id, Connection& connection, End to, Letter letter) {
  const LinkQuality& link = LinkOf(connection.ends.agent_host);
  Pipe& pipe = PipeTo(connection, to);
  Instant at = queue_.now() + DrawLatency(connection.ends.agent_host);
  if (link.reorder_permille != 0 && prng_.Chance(link.reorder_permille, 1000)) {
    at += Duration::Microseconds(prng_.Between(0, 500'000));
  }
  at = std::max(at, pipe.last_delivery);
  pipe.last_delivery = at;
  if (link.duplicate_permille != 0 && prng_.Chance(link.duplicate_permille, 1000)) {
    queue_.At(at, [this, id, to, letter] { Arrive(id, to, letter); });
    queue_.At(at + Duration::Microseconds(prng_.Between(1, 3'000'000)), [this, id, to, letter] {
      const Connection* late = Find(id);
      const bool is_open = late != nullptr && PipeTo(*Find(id), to).open;
      // An open stream delivers a message once. After its end the message may be read again.
      if (!is_open) letter.deliver();
    });
  }
  queue_.At(at, [this, id, to, letter = std::move(letter)] { Arrive(id, to, letter); });
}

void Network::Arrive(ConnectionId id, End to, const Letter& letter) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  const auto [source, target] = Path(*connection, to);
  const bool is_cut = IsCut(source, target);
  if (!PipeTo(*connection, to).open) {
    if (connection->broken && !is_cut) Reset(id, to == End::kAgent ? End::kMaster : End::kAgent);
    return;
  }
  // A stream keeps its order: a message that was cut off delays those behind it.
  if (is_cut || letter.number > PipeTo(*connection, to).delivered + 1) {
    PipeTo(*connection, to).held.emplace(letter.number, letter.deliver);
    return;
  }
  Deliver(id, to, letter.number, letter.deliver);
}

// Delivers the message, and those that waited for it.
void Network::Deliver(ConnectionId id, End to, uint64_t number, Task deliver) {
  for (;;) {
    Pipe& pipe = PipeTo(*Find(id), to);
    pipe.delivered = std::max(pipe.delivered, number);
    deliver();
    const Connection* connection = Find(id);  // it may be closed now
    if (connection == nullptr) return;
    std::map<uint64_t, Task>& held = PipeTo(*Find(id), to).held;
    const auto next = held.find(++number);
    if (next == held.end()) return;
    MARK("a letter waited for one before it");
    deliver = std::move(next->second);
    held.erase(next);
  }
}

// A sender to a lost end gets a reset, if the reset arrives. Otherwise a connection whose other end
// broke during a cut would look open for ever.
void Network::Reset(ConnectionId id, End at) {
  const Connection* connection = Find(id);
  const auto [source, target] = Path(*connection, at);
  if (IsCut(source, target)) return;
  queue_.After(DrawLatency(connection->ends.agent_host), [this, id, at] { EndOfStream(id, at); });
}

void Network::EndOfStream(ConnectionId id, End at) {
  Connection* connection = Find(id);
  if (connection == nullptr || !PipeTo(*connection, at).open) return;
  Pipe& pipe = PipeTo(*connection, at);
  pipe.open = false;
  pipe.held.clear();
  const auto eof = at == End::kAgent ? connection->ends.agent_eof : connection->ends.master_eof;
  Drop(id);
  eof(id);
}

void Network::Drop(ConnectionId id) {
  const Connection* connection = Find(id);
  if (!connection->to_agent.open && !connection->to_master.open)
    connections_[id.value() - 1].reset();
}

void Network::Close(ConnectionId id, End by) {
  Connection* connection = Find(id);
  if (connection == nullptr || !PipeTo(*connection, by).open) return;
  const End other = by == End::kAgent ? End::kMaster : End::kAgent;
  Send(id, other, [this, id, other] { EndOfStream(id, other); });
  PipeTo(*connection, by).open = false;
  PipeTo(*connection, by).held.clear();
  Drop(id);
}

std::vector<ConnectionId> Network::AllTo(uint64_t master_incarnation) const {
  std::vector<ConnectionId> found;
  for (size_t i = 0; i < connections_.size(); ++i) {
    const Connection* connection = connections_[i].get();
    const bool is_its =
        connection != nullptr && connection->ends.master_incarnation == master_incarnation;
    if (is_its) found.emplace_back(i + 1);
  }
  return found;
}

void Network::CloseAll(uint64_t master_incarnation) {
  for (const ConnectionId id : AllTo(master_incarnation)) Close(id, End::kMaster);
}

void Network::AbandonAll(uint64_t master_incarnation) {
  for (const ConnectionId id : AllTo(master_incarnation)) Abandon(id, End::kMaster);
}

void Network::StrandAll(uint64_t master_incarnation) {
  for (const ConnectionId id : AllTo(master_incarnation)) {
    if (!prng_.Chance(2, 3)) continue;
    queue_.After(Duration::Milliseconds(prng_.Between(500, 20'000)), [this, id] {
      if (Connection* late = Find(id); late != nullptr) late->broken = true;
      EndOfStream(id, End::kAgent);
    });
  }
}

void Network::Abandon(ConnectionId id, End by) {
  Connection* connection = Find(id);
  if (connection == nullptr || !PipeTo(*connection, by).open) return;
  PipeTo(*connection, by).open = false;
  PipeTo(*connection, by).held.clear();
  const End other = by == End::kAgent ? End::kMaster : End::kAgent;
  queue_.After(Duration::Milliseconds(prng_.Between(500, 20'000)),
               [this, id, other] { EndOfStream(id, other); });
  Drop(id);
}

// A cut path either breaks its connections after a while, at each end independently, or leaves them
// silent until it is healed.
void Network::BreakLater(ConnectionId id) {
  Connection* connection = Find(id);
  if (connection->breaking || !prng_.Chance(2, 3)) return;
  connection->breaking = true;
  for (End end : {End::kAgent, End::kMaster}) {
    queue_.After(Duration::Milliseconds(prng_.Between(500, 20'000)), [this, id, end] {
      Connection* late = Find(id);
      if (late == nullptr) return;
      const auto [source, target] = Path(*late, end);
      if (IsCut(source, target) || IsCut(target, source) || !late->to_agent.open ||
          !late->to_master.open) {
        late->broken = true;
        EndOfStream(id, end);
      } else {
        late->breaking = false;  // healed in time
      }
    });
  }
}

void Network::Cut(HostIndex from, HostIndex to) {
  if (++cuts_[{from, to}] == 1) BreakAllLater(from, to);
}

void Network::CutForEver(HostIndex from, HostIndex to) {
  if (lasting_cuts_.insert({from, to}).second) BreakAllLater(from, to);
}

void Network::BreakAllLater(HostIndex from, HostIndex to) {
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i] == nullptr) continue;
    const HostIndex host = connections_[i]->ends.agent_host;
    if ((host == from && to == kMasterHost) || (host == to && from == kMasterHost)) {
      BreakLater(ConnectionId(i + 1));
    }
  }
}

void Network::Mend(HostIndex from, HostIndex to) {
  const auto it = cuts_.find({from, to});
  if (it == cuts_.end() || --it->second > 0) return;
  cuts_.erase(it);
  Release(from, to);
}

void Network::MendAll() {
  const auto cuts = std::exchange(cuts_, {});
  for (const auto& [path, count] : cuts) Release(path.first, path.second);
  links_.clear();
  link_.loss_permille = link_.duplicate_permille = link_.reorder_permille = 0;
}

void Network::Release(HostIndex from, HostIndex to) {
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i] == nullptr) continue;
    Connection& connection = *connections_[i];
    for (End end : {End::kAgent, End::kMaster}) {
      if (Path(connection, end) != std::pair{from, to}) continue;
      std::map<uint64_t, Task> held = std::exchange(PipeTo(connection, end).held, {});
      for (auto& [number, task] : held) {
        Schedule(ConnectionId(i + 1), connection, end, {number, std::move(task)});
      }
    }
  }
}

}  // namespace paceline::sim
