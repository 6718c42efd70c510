#pragma once

// The launcher of one host: restarts the master and the agents as core/node/keeper.h decides,
// reports dead nodes to the master, forwards a user's request to stop, and ends with the job. If it
// is killed, the processes that it started go on, and another launcher (run --resume) takes over.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/agent/leave_signal.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/spawn.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/cli/job/run_dir.h"
#include "paceline/core/node/keeper.h"
#include "paceline/core/stop_asks.h"
#include "paceline/model/job_spec.h"
#include "paceline/platform/local.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::cli {

struct LauncherOptions {
  platform::LocalPlatform platform;
  JobCard card;
  JobSpec spec;
  std::string listen;  // of the master, host:port
  bool insecure = false;
  bool resumes = false;      // tells the first master that a user started the job again
  uint64_t term = 0;         // of the master, as its platform counts them; 0: there is no platform
  uint32_t survivors = 0;    // living nodes when the master starts
  std::string memo;          // kept by the platform, of the masters before
  bool is_whole_job = true;  // no other host takes part
  uint32_t incarnation = 0;  // of this host's node, where a platform placed it
  Duration notify_end_wait;  // of the master, after the job's end
  Duration platform_grace;   // from the platform's SIGTERM to its SIGKILL; 0: not known
  std::vector<int> stop_signals;
  wire::Credentials credentials;
  std::vector<std::string> relays;  // on the way to a master that runs elsewhere
  std::function<void(std::string)> narrate;
  std::function<void()> serving;  // called once: the master answers, or runs on another host
};

class Launcher {
 public:
  static absl::StatusOr<std::unique_ptr<Launcher>> Create(LauncherOptions options);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Blocks until the job has ended and no process of it lives on this host.
  JobEnd Run();

  // How the job ended, if the master has said so. A host can leave a job that goes on.
  const std::optional<JobEnd>& told_end() const { return told_end_; }
  // True if this launcher stopped a job whose master did not answer. The master is dead then, and
  // the journal may lack the end.
  bool has_stopped_alone() const { return has_stopped_alone_; }
  // Whether the launcher's own stream to the master is open. Any thread.
  bool is_linked() const { return is_linked_; }

 private:
  // A process under supervision, started by this launcher or by an earlier one.
  struct Kept {
    agent::ProcessId process;
    pid_t last_pid = 0;  // of the previous process, once it has ended
    Fd pidfd;
    bool is_child = true;
  };

  explicit Launcher(LauncherOptions options);
  void Feed(const core::KeeperEvent& event);
  void Do(const core::StartMaster& action);
  void Do(const core::StartAgent& action);
  void Do(const core::CountRanks& action);
  void Do(const core::ReportNodeGone& action);
  void Do(const core::KeeperNote& action);
  void Do(const core::ReadJobEnd& action);
  void Do(const core::GiveUp& action);
  void ArmDeadline();
  void LookAtRunDir();

  void Keep(Kept* slot, const SpawnedProcess& process, std::function<void(int)> ended);
  bool Adopt(Kept* slot, const agent::ProcessId& process, std::function<void(int)> ended);
  void WatchKept(Kept* slot, std::function<void(int)> ended);
  void CloseMasterReady();
  void OnMasterReady();
  void OnMasterEnded(int status);
  void OnAgentEnded(const std::string& node, int status);

  void OnSupervisor(wire::SupervisorEvent event);
  void NoteLink(bool is_linked);
  void OnWish(const Wish& wish);
  void TellServing();
  void TellDeadNodes();
  void OnSignal();
  void AskToStop(int signal, const std::string& who, bool force);
  // Blocks for `patience` at most. Until then a slow master may still carry out the stop.
  void AskMaster(wire::StopRequest request, const std::string& who, Duration patience);
  void PassOverMaster(int signal, const std::string& who);
  void WakeStopped(int signal, const std::string& who);
  void TakeNotice(int signal, const std::string& who);
  void TellNotice();
  void RepeatNotice();
  void LeaveTheJob(int signal, const std::string& who);
  void EndMaster(int signal);
  void AskAgentsToLeave(agent::LeaveSignal ask);
  void OnJobEnded(int exit_code, const std::string& reason);
  void FinishWhenQuiet();
  void KillLeftovers();
  // Gives up on processes that SIGKILL does not end, because they sleep in the kernel.
  void LeaveStuck();
  // The error that the master or an agent left in a file, in its four parts; "" for none.
  std::string LastWords() const;
  bool IsQuiet() const;

  LauncherOptions options_;
  std::unique_ptr<agent::Reactor> reactor_;
  core::Keeper keeper_;
  std::string run_dir_now_;  // where the last look found the run directory
  std::unique_ptr<wire::SupervisorStream> supervisor_;
  std::vector<std::thread> stoppers_;  // each blocks in a Stop call to the master
  bool has_awaited_end_ = false;  // the master's last message had time to arrive after its exit
  Fd signals_;
  Kept master_;
  Fd master_ready_;  // the end that we read
  std::map<std::string, Kept> agents_;
  std::map<std::string, wire::NodeGoneReport> gone_;  // reported again to a new master
  agent::Reactor::TimerId deadline_timer_ = 0;
  agent::Reactor::TimerId kill_timer_ = 0;
  agent::Reactor::TimerId stuck_timer_ = 0;
  core::StopAsks stop_asks_;
  bool has_ended_ = false;
  std::atomic<bool> is_linked_ = false;
  bool is_stopping_ = false;
  std::set<pid_t> continued_;            // processes that were stopped when the job was to end
  int64_t master_stopped_since_ns_ = 0;  // 0: the last look saw that it can run
  std::atomic<bool> has_stopped_alone_ = false;
  bool is_draining_ = false;  // the master starts no node any more: the job ends
  // The platform's signal that takes this host away, and when it ends what runs here; 0: none.
  int notice_signal_ = 0;
  int64_t taken_at_ns_ = 0;
  JobEnd end_;
  std::optional<JobEnd> told_end_;
};

}  // namespace paceline::cli
