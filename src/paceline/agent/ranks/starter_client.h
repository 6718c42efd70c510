#pragma once

// The agent's side of the starter socket (docs/formats/starter_socket.md): connects to the warm
// starter of this host and environment, starts one when none answers, asks it for ranks and hears
// how they end. It keeps no ranks itself and decides nothing; a broken socket is told as `lost`,
// and the caller connects again when its machine says so.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "paceline/agent/ranks/starter_message.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"
#include "paceline/base/instant.h"
#include "paceline/base/spawn.h"

namespace paceline::agent {

// Where a starter is or shall be.
struct StarterPlace {
  std::string socket_path;
  std::string log_path;
  std::vector<std::string> argv;  // without --socket and --ready-fd
  std::vector<std::string> env;
  Duration orphan_after = Duration::Infinite();  // without an agent its ranks are ended then
};

struct StarterListener {
  std::function<void(const StarterHello&)> ready;
  std::function<void(const StarterSpawned&)> spawned;
  std::function<void(uint64_t id, const std::string& why)> spawn_failed;
  std::function<void(const StarterChild&)> exited;
  std::function<void(const std::vector<StarterChild>&)> children;
  std::function<void(const std::string& why)> lost;
};

class StarterClient {
 public:
  // `reactor` outlives the client. The listener is called from the loop, never from Connect.
  StarterClient(Reactor& reactor, std::string job, std::string node, StarterListener listener);
  ~StarterClient();
  StarterClient(const StarterClient&) = delete;
  StarterClient& operator=(const StarterClient&) = delete;

  // Leaves the starter it has, if any, without telling `lost`. Answers with `ready` or `lost`.
  void Connect(StarterPlace place);
  bool is_ready() const { return is_ready_; }

  // `message` is complete but for `type` and `id`. False when there is no starter.
  bool Spawn(uint64_t id, nlohmann::json message);
  void List();
  // The job is over for this node; the connection is closed.
  void Bye();

 private:
  void TryConnect();
  void Launch();
  void OnLaunchSignal();
  void OnStarterEnded(pid_t pid);
  void OnSocket(uint32_t epoll_events);
  bool ReadSocket();
  bool TakeMessages();
  void Handle(const StarterMessage& message);
  void Send(const nlohmann::json& message);
  void Flush();
  void Lose(const std::string& why);
  void CloseSocket();

  Reactor& reactor_;
  std::string job_;
  std::string node_;
  StarterListener listener_;
  StarterPlace place_;
  Fd socket_;
  Fd ready_pipe_;
  uint64_t log_size_ = 0;      // of its log when it was launched
  bool was_launched_ = false;  // since Connect: a second launch would not help
  bool is_ready_ = false;
  std::string input_;
  std::string output_;
  std::map<pid_t, SpawnedProcess> launched_;  // reaped when they end
  // Guards callbacks that outlive the client (posted or timed ones).
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace paceline::agent
