#pragma once

// Runs the checks of the user on this host, one after the other, beside the imports of the warm
// image. Each runs in a session of its own, which is killed when the check is over or its time is.
// A check that fails is tried once more.
//
// A host that passed is not checked again in this boot and this job: an agent that is started again
// would else hold its node back. check.json in the folder of the node has the result.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/instant.h"
#include "paceline/base/json.h"
#include "paceline/base/spawn.h"
#include "paceline/model/node.h"

namespace paceline::agent {

struct CheckSetup {
  std::vector<std::string> checks;  // absolute paths, or kHostCheck
  Duration timeout;                 // for each try of each
  Duration retry_after = Duration::Seconds(5);
  std::string node;
  std::string boot_id;
  std::string python;  // runs a .py file that is not executable
  std::string cwd;
  std::string log_dir;  // check-NAME.log has the output of the last try
  std::string memory;   // check.json
  std::map<std::string, std::string> env;
};

class CheckRunner {
 public:
  using Tell = std::function<void(const NodeCheck&)>;

  CheckRunner(Reactor& reactor, CheckSetup setup, Tell tell);
  ~CheckRunner();
  CheckRunner(const CheckRunner&) = delete;
  CheckRunner& operator=(const CheckRunner&) = delete;

  // Begins the checks if there are any. `tell` is called once, when all passed or one failed twice.
  void Start();
  // Runs the checks anew, and tells of them with this round. Not if that round was begun before.
  void Again(uint32_t round);
  // The next agent of this host runs its checks anew: the master has sent the node away.
  void Forget();
  // kRunning until they are over.
  const NodeCheck& state() const { return state_; }

 private:
  void Try();
  void OnEnd();
  void OnLate();
  void Judge(bool ok, std::string reason, nlohmann::json numbers);
  void Finish(NodeCheck::State state, std::string reason);
  void Close();
  void Reap(pid_t pid);
  void Remember();
  std::string Name() const;
  std::string LogPath() const;

  Reactor& reactor_;
  const CheckSetup setup_;
  const Tell tell_;
  NodeCheck state_;
  nlohmann::json numbers_ = nlohmann::json::object();
  std::string remarks_;  // reasons of checks that passed
  size_t next_ = 0;      // of setup_.checks
  int tries_ = 0;        // of that one
  SpawnedProcess process_;
  std::map<pid_t, SpawnedProcess> killed_;  // not reaped yet
  Reactor::TimerId timer_ = 0;
};

}  // namespace paceline::agent
