// How fast a master takes in many agents, pushes a world to all of them, and replaces one.
//
//   bench_agents AGENTS CHANNELS [SECONDS]     CHANNELS 0: a socket for each agent
//
// The master is a process of its own; the agents are streams of this process without ranks. Times
// include the work of the clients, which share the machine's cores; the master's CPU time and
// memory are given apart. One line of JSON on stdout.

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "paceline/base/file_text.h"
#include "paceline/base/log.h"
#include "paceline/base/spawn.h"
#include "paceline/master/job_file.h"
#include "paceline/master/main.h"
#include "paceline/wire/agent_stream.h"
#include "paceline/wire/control_client.h"
#include "paceline/wire/secret_file.h"
#include "paceline/wire/spec_file.h"

namespace paceline {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// How many agents were told to run in each generation.
class Progress {
 public:
  void Told(uint64_t generation) {
    const std::lock_guard lock(mutex_);
    if (generation != generation_) told_ = 0;
    generation_ = generation;
    ++told_;
    changed_.notify_all();
  }
  bool Wait(uint64_t generation, uint32_t agents) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(2),
                             [&] { return generation_ == generation && told_ >= agents; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t generation_ = 0;
  uint32_t told_ = 0;
};

class Agent {
 public:
  Agent(int number, wire::AgentStreamOptions options, Progress* progress)
      : name_("node" + std::to_string(number)), progress_(progress) {
    stream_ = std::make_unique<wire::AgentStream>(
        std::move(options), [this](wire::AgentStreamEvent event) { Hear(event); });
    is_made_ = true;
  }
  const std::string& name() const { return name_; }
  void Beat() {
    stream_->Send(wire::Heartbeat{.generation = Generation(generation_), .store_port = 20'000});
  }

 private:
  void Hear(const wire::AgentStreamEvent& event) {
    while (!is_made_) std::this_thread::yield();
    if (std::holds_alternative<wire::StreamOpened>(event)) {
      stream_->Send(wire::Register{{.name = name_,
                                    .boot_id = "b",
                                    .agent_incarnation = 1,
                                    .agent_pid = 1,
                                    .address = "127.0.0.1",
                                    .slots = 1,
                                    .store_port = 20'000,
                                    .version_minor = 1}});
    } else if (const auto* told = std::get_if<Assignment>(&event)) {
      if (told->kind != Assignment::Kind::kRun) return;
      if (generation_.exchange(told->generation.value()) == told->generation.value()) return;
      progress_->Told(told->generation.value());
    }
  }

  const std::string name_;
  Progress* const progress_;
  std::unique_ptr<wire::AgentStream> stream_;
  std::atomic<bool> is_made_ = false;
  std::atomic<uint64_t> generation_ = 0;
};

struct Usage {
  double cpu_seconds = 0;
  long rss_mib = 0;
};
Usage UsageOf(pid_t pid) {
  Usage usage;
  const std::string proc = "/proc/" + std::to_string(pid);
  const std::string stat = ReadText(proc + "/stat", 4096);
  unsigned long user = 0;
  unsigned long system = 0;
  sscanf(stat.c_str() + stat.rfind(')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
         &user, &system);
  usage.cpu_seconds =
      static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  const std::string status = ReadText(proc + "/status", 8192);
  usage.rss_mib = atol(status.c_str() + status.find("VmHWM:") + 6) / 1024;
  return usage;
}

std::string MakeRunDir(uint32_t agents, const std::string& token) {
  std::string dir = (std::filesystem::temp_directory_path() / "agents.XXXXXX").string();
  if (mkdtemp(dir.data()) == nullptr) return {};
  wire::SpecFile spec;
  spec.job = {.job_id = "bench", .nodes_min = agents, .nodes_max = agents, .spares = 1};
  if (!wire::WriteSecretFile(dir + "/token", token).ok() ||
      !wire::WriteSpecFile(spec, dir + "/spec.json").ok()) {
    return {};
  }
  return dir;
}

void Beat(std::vector<std::unique_ptr<Agent>>* agents, double seconds, Duration interval) {
  const auto start = Clock::now();
  while (Since(start) < seconds) {
    const auto round = Clock::now();
    for (const auto& agent : *agents) agent->Beat();
    std::this_thread::sleep_until(round + std::chrono::nanoseconds(interval.nanoseconds()));
  }
}

struct Bench {
  uint32_t count = 0;
  int channels = 0;
  double seconds = 0;
  std::string token;
  std::string dir;
  pid_t master = -1;
  wire::Credentials credentials() const { return {.token = token}; }
};

pid_t StartMaster(const std::string& dir);

std::string WaitForAddress(const Bench& bench) {
  const auto start = Clock::now();
  for (;;) {
    const auto address = master::ReadMasterAddress(bench.dir);
    if (address.ok() && address->pid == bench.master) return address->addr;
    if (Since(start) > 30) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Seconds from the report of a dead node until every member was told of the next world.
double Replace(const Bench& bench, const std::string& address, Progress* progress) {
  std::atomic<bool> is_attached = false;
  wire::SupervisorStream launcher({.address = address, .credentials = bench.credentials()},
                                  [&](wire::SupervisorEvent event) {
                                    if (event.index() == 0) is_attached = true;
                                  });
  while (!is_attached) std::this_thread::yield();
  const auto start = Clock::now();
  launcher.Send({.name = "node1", .evidence = "the bench says so"});
  return progress->Wait(2, bench.count) ? Since(start) : -1;
}

struct Restart {
  double serving = -1;   // until a status is answered
  double attached = -1;  // until all agents are connected again
};
Restart RestartMaster(Bench* bench, const std::string& address) {
  Restart restart;
  kill(bench->master, SIGKILL);
  waitpid(bench->master, nullptr, 0);
  const auto start = Clock::now();
  bench->master = StartMaster(bench->dir);
  for (;;) {
    wire::ControlClient client({.address = address, .credentials = bench->credentials()});
    const auto status = client.GetStatus();
    if (!status.ok()) return restart;
    if (restart.serving < 0) restart.serving = Since(start);
    uint32_t connected = 0;
    for (const wire::NodeStatus& node : status->nodes) connected += node.connected ? 1 : 0;
    if (connected >= bench->count) break;
    if (Since(start) > 60) return restart;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  restart.attached = Since(start);
  return restart;
}

int Measure(Bench& bench) {
  const std::string address = WaitForAddress(bench);
  std::vector<std::unique_ptr<wire::SharedChannel>> shared;
  for (int i = 0; i < bench.channels; ++i) {
    shared.push_back(std::make_unique<wire::SharedChannel>(address, bench.credentials()));
  }
  Progress progress;
  std::vector<std::unique_ptr<Agent>> agents;
  const auto start = Clock::now();
  // One more than the world holds: the spare that takes over.
  for (uint32_t i = 0; i <= bench.count; ++i) {
    agents.push_back(std::make_unique<Agent>(
        static_cast<int>(i),
        wire::AgentStreamOptions{
            .address = address,
            .credentials = bench.credentials(),
            .jitter_seed = i,
            .channel = shared.empty() ? nullptr : shared[i % shared.size()].get()},
        &progress));
  }
  if (!progress.Wait(1, bench.count)) return 1;
  const double joined = Since(start);
  const Usage after_join = UsageOf(bench.master);
  const Duration interval = Duration::Milliseconds(std::max<int64_t>(250, bench.count / 10));
  Beat(&agents, bench.seconds, interval);
  const Usage after_beats = UsageOf(bench.master);
  const double replaced = Replace(bench, address, &progress);
  const Usage end = UsageOf(bench.master);
  const Restart restart = RestartMaster(&bench, address);
  printf(
      "{\"agents\":%u,\"channels\":%d,\"join_to_world_s\":%.3f,\"master_cpu_join_s\":%.2f,"
      "\"heartbeats_per_s\":%.0f,\"master_cores_heartbeats\":%.3f,\"replace_s\":%.3f,"
      "\"master_rss_mib\":%ld,\"restart_serving_s\":%.3f,\"restart_attached_s\":%.3f}\n",
      bench.count, bench.channels, joined, after_join.cpu_seconds,
      static_cast<double>(bench.count) / interval.ToSecondsF(),
      (after_beats.cpu_seconds - after_join.cpu_seconds) / bench.seconds, replaced, end.rss_mib,
      restart.serving, restart.attached);
  return 0;
}

// A process of its own, by a fresh image: this one has gRPC's threads.
pid_t StartMaster(const std::string& dir) {
  auto started = SpawnDetached({.argv = {"/proc/self/exe", "--serve", dir},
                                .env = CurrentEnvironment(),
                                .output_path = dir + "/master.log"});
  return started.ok() ? started->pid : -1;
}

int Serve(const std::string& dir) {
  SetLogLevel(LogLevel::kWarning);
  const absl::Status status = master::RunMaster({.run_dir = dir});
  if (!status.ok()) fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

int Main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--serve") return Serve(argv[2]);
  const auto count = static_cast<uint32_t>(argc > 1 ? atoi(argv[1]) : 1000);
  Bench bench{.count = count,
              .channels = argc > 2 ? atoi(argv[2]) : 0,
              .seconds = argc > 3 ? atof(argv[3]) : 10,
              .token = wire::MakeToken()};
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  bench.dir = MakeRunDir(count, bench.token);
  bench.master = StartMaster(bench.dir);
  const int result = Measure(bench);
  kill(bench.master, SIGKILL);
  std::filesystem::remove_all(bench.dir);
  fflush(stdout);
  _exit(result);  // thousands of streams need not be closed one by one
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
