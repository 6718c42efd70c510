#pragma once

// The agent's end of the starter socket (docs/formats/starter_socket.md): connects to the warm
// starter of this host and environment, launches one if none answers, asks it for ranks and
// receives their exits. It keeps no ranks and decides nothing. A broken socket is reported as
// `lost`, and the caller connects again when its machine says so.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/agent/starter/starter_message.h"
#include "paceline/base/fd.h"
#include "paceline/base/instant.h"
#include "paceline/base/spawn.h"

namespace paceline::agent {

// The place of a starter, existing or not.
struct StarterPlace {
  std::string socket_path;
  std::string log_path;
  std::vector<std::string> argv;  // without --socket and --ready-fd
  std::vector<std::string> env;
  Duration orphan_after = Duration::Infinite();  // how long its ranks may live without an agent
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
  // `reactor` must outlive the client. The listener is called from the loop, never from Connect.
  StarterClient(Reactor& reactor, std::string job, std::string node, StarterListener listener);
  ~StarterClient();
  StarterClient(const StarterClient&) = delete;
  StarterClient& operator=(const StarterClient&) = delete;

  // Leaves the current starter, if any, without calling `lost`. Ends in `ready` or `lost`.
  void Connect(StarterPlace place);
  bool is_ready() const { return is_ready_; }

  // `message` lacks only `type` and `id`. False: there is no starter.
  bool Spawn(uint64_t id, nlohmann::json message);
  void List();
  // The job is over for this node. Closes the connection.
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
  uint64_t log_size_ = 0;      // of its log, at its launch
  bool was_launched_ = false;  // since Connect: launching twice would not help
  bool is_ready_ = false;
  std::string input_;
  std::string output_;
  std::map<pid_t, SpawnedProcess> launched_;  // reaped when they end
  // For posted and timed callbacks that outlive the client.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace paceline::agent
