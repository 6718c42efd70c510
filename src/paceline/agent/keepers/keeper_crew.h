#pragma once

// All hosts of one start of the ranks by another launcher, as seen by the keeper of rank 0's host.
// This keeper serves the other hosts' keepers as a master serves its agents, with the same
// messages:
//
//   a keeper registers         its older ranks have ended; the newest generation in its memory
//   Assignment                 the world has begun: its generation
//   checkpoint report, order   as between agents and their master
//   Leaving, Heartbeat         its last rank has ended; a rank has come again
//
// Each start has its own crew with its own token and certificates, so only keepers of that start
// can register. docs/adr/0017.
//
// Everything runs on the loop's thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/server/master_server.h"

namespace paceline::agent {

// The name under which the keeper of host `host` registers with the keeper of host 0: "host-3".
std::string NameOfHost(uint32_t host);

class KeeperCrew {
 public:
  struct Listener {
    std::function<void()> changed;  // a host, or a rank of one, has come or gone
    std::function<void(NodeId, const CheckpointReport&)> report;
    std::function<void(NodeId)> lost;  // its connection broke
  };
  // `address` is where other hosts reach this one. Host i is node i + 1; this is host 0.
  static absl::StatusOr<std::unique_ptr<KeeperCrew>> Start(Reactor& reactor, std::string attempt,
                                                           const std::string& job_id,
                                                           const std::string& address,
                                                           Listener listener);
  ~KeeperCrew();
  KeeperCrew(const KeeperCrew&) = delete;
  KeeperCrew& operator=(const KeeperCrew&) = delete;

  const std::string& attempt() const { return attempt_; }
  const std::string& address() const { return address_; }
  // The join string for the other hosts' keepers.
  const std::string& join() const { return join_; }
  // This host's credentials, for exchanging images.
  const wire::Credentials& credentials() const { return own_; }

  // True if the keepers of hosts 1 … hosts - 1 have registered.
  bool IsWhole(uint32_t hosts) const;
  // The newest generation of images in the other hosts' memory; 0 if there are none.
  uint64_t newest_generation() const;
  bool has_ranks() const;
  std::vector<NodeId> Connected() const;  // in order

  // Tells all members that the world of `generation` has begun, also those that join later.
  void Begin(Generation generation);
  void Send(NodeId node, const CheckpointOrder& order);

 private:
  struct Member {
    ConnectionId connection;
    uint64_t newest_generation = 0;
    bool has_ranks = true;
  };
  KeeperCrew(Reactor& reactor, std::string attempt, std::string address, Listener listener);
  void On(const wire::AgentSaid& said);
  void On(const wire::AgentDisconnected& gone);
  void SendBeginning(const Member& member);

  Reactor& reactor_;
  const std::string attempt_;
  const std::string address_;
  const Listener listener_;
  std::string join_;
  wire::Credentials own_;
  Generation generation_;  // 0: the world has not begun
  std::map<NodeId, Member> members_;
  // Owners: this crew, and work posted by the server's threads, which may run after the crew's end.
  std::shared_ptr<KeeperCrew*> self_;
  std::unique_ptr<wire::MasterServer> server_;  // last: its threads post until it has ended
};

}  // namespace paceline::agent
