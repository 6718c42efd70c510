#pragma once

// The network between the master's host and the nodes. A connection behaves like a TCP stream:
// ordered and complete while it lives, late when packets are lost, silent while the path is cut,
// and broken at a different time for each end. Messages of different connections may overtake each
// other. Beyond TCP, a link may deliver a message twice, or again after the connection has ended:
// the core must tolerate that.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/base/prng.h"
#include "paceline/model/ids.h"
#include "paceline/sim/options.h"
#include "paceline/sim/queue.h"

namespace paceline::sim {

// 0 is the master's host; node i is i + 1.
using HostIndex = uint32_t;
inline constexpr HostIndex kMasterHost = 0;

enum class End { kAgent, kMaster };

class Network {
 public:
  Network(EventQueue& queue, Prng prng, const LinkQuality& link);

  // --- connections ---
  struct Ends {
    HostIndex agent_host = 0;
    uint64_t agent_incarnation = 0;
    uint64_t master_incarnation = 0;
    // Called once, when that end notices that the stream is over.
    std::function<void(ConnectionId)> agent_eof;
    std::function<void(ConnectionId)> master_eof;
  };
  ConnectionId Open(Ends ends);
  bool IsOpen(ConnectionId id, End end) const;
  // Null if the connection is over for both ends.
  const Ends* EndsOf(ConnectionId id) const;
  // Silently dropped if either end is closed.
  void Send(ConnectionId id, End to, Task deliver);
  // `by` closes its end. The other end gets its eof after everything that was sent before.
  void Close(ConnectionId id, End by);
  // Closes all connections to that master.
  void CloseAll(uint64_t master_incarnation);
  // The host of `by` lost power: its end is gone, and the other end notices only by a keepalive.
  void Abandon(ConnectionId id, End by);
  void AbandonAll(uint64_t master_incarnation);
  // That master is frozen: some agents lose their patience after a while, others have whole streams
  // when it comes back.
  void StrandAll(uint64_t master_incarnation);

  // --- paths ---
  bool IsCut(HostIndex from, HostIndex to) const {
    return cuts_.contains({from, to}) || lasting_cuts_.contains({from, to});
  }
  bool HasCuts() const { return !cuts_.empty(); }
  const std::map<std::pair<HostIndex, HostIndex>, int>& cuts() const { return cuts_; }
  void Cut(HostIndex from, HostIndex to);
  void Mend(HostIndex from, HostIndex to);
  // Heals all cuts, except lasting ones.
  void MendAll();
  void CutForEver(HostIndex from, HostIndex to);
  void SetLink(HostIndex node, const LinkQuality& link) { links_[node] = link; }
  void ResetLink(HostIndex node) { links_.erase(node); }
  Duration DrawLatency(HostIndex node);

 private:
  struct Letter {
    uint64_t number = 0;  // in the order of sending
    Task deliver;
  };
  struct Pipe {
    bool open = true;  // the receiving end still reads
    Instant last_delivery;
    uint64_t sent = 0;
    uint64_t delivered = 0;
    // By number: messages sent during a cut, or in flight then, or behind such a message.
    std::map<uint64_t, Task> held;
  };
  struct Connection {
    Ends ends;
    Pipe to_agent;
    Pipe to_master;
    bool breaking = false;
    bool broken = false;  // one end was lost without notice to the other
  };

  std::vector<ConnectionId> AllTo(uint64_t master_incarnation) const;
  const Connection* Find(ConnectionId id) const;
  Connection* Find(ConnectionId id);
  static Pipe& PipeTo(Connection& connection, End end);
  std::pair<HostIndex, HostIndex> Path(const Connection& connection, End to) const;
  void Schedule(ConnectionId id, Connection& connection, End to, Letter letter);
  void Arrive(ConnectionId id, End to, const Letter& letter);
  void Deliver(ConnectionId id, End to, uint64_t number, Task deliver);
  void EndOfStream(ConnectionId id, End at);
  void Reset(ConnectionId id, End at);
  void BreakLater(ConnectionId id);
  void BreakAllLater(HostIndex from, HostIndex to);
  void Release(HostIndex from, HostIndex to);
  void Drop(ConnectionId id);
  const LinkQuality& LinkOf(HostIndex node) const;

  EventQueue& queue_;
  Prng prng_;
  LinkQuality link_;
  std::map<HostIndex, LinkQuality> links_;               // flaky ones
  std::map<std::pair<HostIndex, HostIndex>, int> cuts_;  // how many faults cut this path
  std::set<std::pair<HostIndex, HostIndex>> lasting_cuts_;
  // By id, from 1; null if it is over for both ends. Every message looks its connection up.
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace paceline::sim
