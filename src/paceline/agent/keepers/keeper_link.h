#pragma once

// A keeper's connection to the keeper of rank 0's host, which decides for all: keeper_crew.h. It
// authenticates with the join string from the process group's store, and keeps reconnecting.
//
// The listener is called on the loop's thread.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "paceline/agent/socket/reactor.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/node.h"
#include "paceline/wire/client/agent_stream.h"
#include "paceline/wire/security/credentials.h"

namespace paceline::agent {

class KeeperLink {
 public:
  struct Setup {
    std::string join;
    uint32_t host = 0;
    NodeReport identity;  // the link sets its name
  };
  struct Listener {
    std::function<void(const wire::Credentials&)> enrolled;  // once, before all others
    std::function<void()> opened;           // earlier messages are forgotten: send everything
    std::function<void(Generation)> began;  // the world has begun; may be repeated
    std::function<void(const CheckpointOrder&)> order;
    std::function<void()> broken;
  };
  KeeperLink(Reactor& reactor, Setup setup, Listener listener);
  ~KeeperLink();
  KeeperLink(const KeeperLink&) = delete;
  KeeperLink& operator=(const KeeperLink&) = delete;

  // False: not connected. The next `opened` asks for everything.
  bool Send(const CheckpointReport& report);
  void SayRanks(bool has_ranks);
  bool is_connected() const { return is_connected_; }

 private:
  void Enroll(const wire::JoinString& join, const std::shared_ptr<KeeperLink*>& self);
  void Connect(const std::string& address, const wire::Credentials& credentials);
  void On(const wire::AgentStreamEvent& event);

  Reactor& reactor_;
  const Setup setup_;
  const Listener listener_;
  bool is_connected_ = false;
  bool has_ranks_ = true;
  // Owners: this link, and posted work, which may run after the link's end.
  std::shared_ptr<KeeperLink*> self_;
  std::atomic<bool> is_ending_ = false;
  std::unique_ptr<wire::AgentStream> stream_;
  std::thread enrolling_;  // a handshake blocks
};

}  // namespace paceline::agent
