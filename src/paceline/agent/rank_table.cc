#include "paceline/agent/rank_table.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "paceline/agent/hang/failed_call.h"
#include "paceline/agent/ranks/exit_cause.h"
#include "paceline/agent/ranks/failure_class.h"
#include "paceline/agent/ranks/log_rules.h"
#include "paceline/agent/ranks/task_env.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/log.h"
#include "paceline/base/text.h"
#include "paceline/diagnose/deadline.h"
#include "paceline/logclass/builtin.h"

namespace paceline::agent {
namespace {

// How long to wait for the starter's report. It reaps within a millisecond, but a busy host may
// need longer. Only the cause depends on it.
constexpr int64_t kStarterWordNs = 500'000'000;
constexpr size_t kStderrTailBytes = 64 << 10;
// A process ends in this time after its script's exception, in most cases.
constexpr int64_t kRaisedQuietNs = diagnose::kQuietMin.nanoseconds();

const char* EntryName(EntryKind entry) {
  switch (entry) {
    case EntryKind::kScript: return "script";
    case EntryKind::kModule: return "module";
    case EntryKind::kExec: return "exec";
  }
  return "script";
}

LogRetention RetentionOf(const LaunchSpec& launch) {
  LogRetention retention;
  if (launch.log_bytes_max > 0) {
    retention.head_bytes = launch.log_bytes_max / 8;
    retention.tail_bytes = launch.log_bytes_max - retention.head_bytes;
  }
  retention.total_bytes = launch.log_total_bytes_max;
  return retention;
}

std::string LogDirOf(const RankTableSetup& setup) {
  if (setup.launch.log_dir.empty()) return setup.files.LogDir();
  return Concat(setup.launch.log_dir, "/", setup.files.node);
}

bool IsTableServer(const JobSpec& job, Rank rank) {
  return job.tasks.has_tables() && IsTask(rank) && KindOfTask(rank) == TaskKind::kPs;
}

std::string OwnProgram() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size)) : "paceline";
}

// The pipe or file that was the launcher's stdin. If the launcher has ended, its pid may be another
// process's.
nlohmann::json StdinOf(const LaunchSpec& launch) {
  const ProcessId launcher{launch.stdin_pid, launch.stdin_start};
  if (launcher.pid <= 0 || !IsAlive(launcher)) return nullptr;
  return Concat("/proc/", launcher.pid, "/fd/0");
}

}  // namespace

RankTable::RankTable(Reactor& reactor, const PageFile& page, RankTableSetup setup, Ended ended)
    : reactor_(reactor),
      page_(page),
      setup_(std::move(setup)),
      ended_(std::move(ended)),
      logs_(LogDirOf(setup_), RetentionOf(setup_.launch)),
      log_tender_(logs_, setup_.files.ErrorDir()),
      task_ports_(setup_.port_seed),
      memory_({.job_id = setup_.job.job_id,
               .node = setup_.files.node,
               .limit = setup_.job.memory_node}) {
  if (memory_.group().has_value()) kernel_.Watch(*memory_.group());
  if (!setup_.launch.log_rules.empty()) {
    auto rules = ReadLogRules(setup_.launch.log_rules);
    if (rules.ok()) {
      rules_ = *std::move(rules);
    } else {
      LogError("log_rules", {{"why", rules.status()}});  // the launcher has checked them
    }
  }
  if (!setup_.job.tasks.is_on()) return;
  const absl::Status held = task_ports_.Hold(setup_.launch.nproc_per_node);
  if (!held.ok()) LogError("task_ports", {{"why", held}});
}

RankTable::~RankTable() {
  while (!ranks_.empty()) Drop(ranks_.begin()->first);
}

std::optional<RankTable::Living> RankTable::Drop(uint32_t local_rank) {
  auto node = ranks_.extract(local_rank);
  if (node.empty()) return std::nullopt;
  Living& rank = node.mapped();
  reactor_.Cancel(rank.waiting);
  if (rank.pidfd.is_open()) reactor_.Unwatch(rank.pidfd.get());
  return std::move(rank);
}

// Tasks have generations of their own, so one may start again while others of older ones live.
void RankTable::OpenLogs(uint64_t generation) {
  if (generation == newest_generation_) return;
  newest_generation_ = std::max(newest_generation_, generation);
  std::set<uint64_t> in_use;
  for (const auto& [local_rank, rank] : ranks_) {
    if (IsTask(rank.rank)) in_use.insert(rank.generation.value());
  }
  logs_.OpenGeneration(generation, in_use);
}

void RankTable::KeepPort(const core::SpawnRank& spawn) {
  for (const Task& task : spawn.assignment.tasks) {
    if (task.slot != spawn.local_rank) continue;
    const absl::Status kept = task_ports_.Keep(task.slot, task.port);
    if (!kept.ok()) LogError("task_port", {{"task", RankName(task.rank)}, {"why", kept}});
  }
}

nlohmann::json RankTable::PrepareSpawn(const core::SpawnRank& spawn) {
  const LaunchSpec& launch = setup_.launch;
  const uint64_t generation = spawn.assignment.generation.value();
  const uint32_t rank = spawn.rank.value();
  OpenLogs(generation);
  KeepPort(spawn);
  const RankPlace place{
      .job = setup_.job,
      .launch = launch,
      .assignment = spawn.assignment,
      .node = setup_.files.node,
      .run_dir = setup_.files.run_dir,
      .rank = spawn.rank,
      .local_rank = spawn.local_rank,
      .checkpoint_socket = setup_.files.checkpoint_socket,
      .lease_socket = setup_.files.lease_socket,
      .gloo_interface = setup_.gloo_interface,
      .ring = setup_.rings == nullptr ? "" : setup_.rings->PathOf(spawn.local_rank),
      .torch_error_file = setup_.files.TorchErrorFile(generation, rank)};
  std::vector<std::string> args;
  for (const std::string& arg : launch.args) {
    args.push_back(SubstituteLocalRank(arg, spawn.local_rank));
  }
  std::string entry = EntryName(launch.entry);
  std::string target = launch.target;
  if (IsTableServer(setup_.job, spawn.rank)) {
    entry = EntryName(EntryKind::kExec);
    target = OwnProgram();
    args = TableServerCommand(place);
  }
  nlohmann::json message = {{"generation", generation},
                            {"rank", rank},
                            {"local_rank", spawn.local_rank},
                            {"page", setup_.files.Page()},
                            {"slot", spawn.local_rank},
                            {"entry", entry},
                            {"target", target},
                            {"args", args},
                            {"env", IsTask(spawn.rank) ? TaskEnvironment(place, setup_.base_env)
                                                       : RankEnvironment(place, setup_.base_env)},
                            {"cwd", launch.cwd},
                            {"stdin", StdinOf(launch)},
                            {"stdout", logs_.StdoutPath(generation, rank)},
                            {"stderr", logs_.StderrPath(generation, rank)},
                            {"error_file", setup_.files.ErrorRecord(generation, rank)},
                            {"store_addr", spawn.assignment.store.host},
                            {"store_port", spawn.assignment.store.port},
                            {"warm", launch.warm},
                            {"omp_threads", nullptr}};
  if (const std::string door = memory_.DoorOfGroup(); !door.empty()) message["cgroup"] = door;
  if (launch.omp_threads.has_value()) message["omp_threads"] = *launch.omp_threads;
  return message;
}

void RankTable::Add(const RankReport& rank, uint64_t start_time_ticks) {
  Drop(rank.local_rank);  // replies for the slot's earlier process are not needed any more
  Living living;
  living.process = {rank.pid, start_time_ticks};
  living.generation = rank.generation;
  living.rank = rank.rank;
  living.pidfd = OpenPidfd(living.process);
  kernel_.Watch(rank.pid);
  living.quiet_from_ns = MonotonicNs() + diagnose::kQuietMin.nanoseconds();
  const uint32_t local_rank = rank.local_rank;
  Living& kept = ranks_[local_rank] = std::move(living);
  if (!kept.pidfd.is_open()) {
    // The rank ended before it was pinned. Its end is reported later, because Add's caller will
    // first report that it lives, and the later report wins.
    kept.waiting = reactor_.CallAt(MonotonicNs(), [this, local_rank] { OnPidfd(local_rank); });
    return;
  }
  reactor_.Watch(kept.pidfd.get(), EPOLLIN, [this, local_rank](uint32_t) { OnPidfd(local_rank); })
      .IgnoreError();
}

void RankTable::Signal(uint32_t local_rank, int32_t pid, int signal) {
  const auto found = ranks_.find(local_rank);
  if (found == ranks_.end() || found->second.process.pid != pid) return;
  const bool reached = SignalGroup(found->second.process, signal);
  LogInfo("rank_signalled", {{"local_rank", local_rank},
                             {"pid", pid},
                             {"signal", SignalName(signal)},
                             {"reached", reached}});
}

void RankTable::OnPidfd(uint32_t local_rank) {
  Living& rank = ranks_.at(local_rank);
  if (rank.pidfd.is_open()) reactor_.Unwatch(rank.pidfd.get());
  rank.pidfd.Close();
  // The kernel wakes this agent and the starter at once. A starter that is not connected to this
  // agent yet still writes the exit to the page a moment later.
  const std::optional<SlotReading> reading = ReadingOf(local_rank, rank);
  if (!starter_is_there_ && reading.has_value() && reading->wait_status.has_value()) {
    Finish(local_rank, std::nullopt);
    return;
  }
  rank.waiting = reactor_.CallAt(MonotonicNs() + kStarterWordNs,
                                 [this, local_rank] { Finish(local_rank, std::nullopt); });
}

void RankTable::OnStarterExited(const StarterChild& child) {
  const auto found = ranks_.find(child.local_rank);
  if (found == ranks_.end() || found->second.process.pid != child.pid ||
      found->second.process.start_time_ticks != child.start_time_ticks) {
    return;
  }
  Finish(child.local_rank, child.wait_status);
}

void RankTable::OnStarterListed(const std::vector<StarterChild>& children) {
  for (const StarterChild& child : children) {
    if (!child.is_running) OnStarterExited(child);
  }
}

void RankTable::OnStarterLost() {
  starter_is_there_ = false;
  std::vector<uint32_t> ended;
  for (const auto& [local_rank, rank] : ranks_) {
    if (rank.waiting != 0) ended.push_back(local_rank);
  }
  for (const uint32_t local_rank : ended) Finish(local_rank, std::nullopt);
}

std::optional<SlotReading> RankTable::ReadingOf(uint32_t local_rank, const Living& rank) const {
  std::optional<SlotReading> reading = page_.Read(local_rank);
  if (!reading.has_value() || reading->pid != rank.process.pid ||
      reading->start_time_ticks != rank.process.start_time_ticks) {
    return std::nullopt;
  }
  return reading;
}

namespace {

// Since the starter saw the rank's end; 0: nobody did, or the rank lives.
Duration EndedFor(const SlotReading& reading) {
  if (!reading.wait_status.has_value() || reading.exit_monotonic_ns <= 0) return Duration();
  return std::max(Duration(), Duration::Nanoseconds(MonotonicNs() - reading.exit_monotonic_ns));
}

}  // namespace

void RankTable::Finish(uint32_t local_rank, std::optional<int32_t> wait_status) {
  const std::optional<Living> dropped = Drop(local_rank);
  if (!dropped.has_value()) return;
  const Living& rank = *dropped;
  std::optional<SlotReading> reading = ReadingOf(local_rank, rank);
  if (!wait_status.has_value() && reading.has_value()) wait_status = reading->wait_status;
  core::RankEnded ended;
  ended.local_rank = local_rank;
  ended.generation = rank.generation;
  ended.pid = rank.process.pid;
  ended.cause = Judge(rank, wait_status, reading.has_value() && reading->port_taken);
  std::optional<RankReport> last;
  if (reading.has_value()) {
    ended.ended_for = EndedFor(*reading);
    reading->wait_status.reset();  // as while it lived
    last = ReportOf(*reading);
  }
  NoteLastTimes(local_rank, rank, reading.has_value() ? reading->exit_monotonic_ns : 0);
  ended_(ended, last);
}

ExitCause RankTable::Judge(const Living& rank, std::optional<int32_t> wait_status,
                           bool port_taken) {
  const uint64_t generation = rank.generation.value();
  const uint32_t number = rank.rank.value();
  ExitEvidence evidence;
  evidence.pid = rank.process.pid;
  evidence.generation = generation;
  evidence.wait_status = wait_status;
  evidence.port_taken = port_taken;
  if (wait_status != 0) {
    evidence.error_record =
        ReadText(setup_.files.ErrorRecord(generation, number), kErrorRecordBytesMax);
    evidence.stderr_tail = ReadTail(logs_.StderrPath(generation, number), kStderrTailBytes);
    evidence.cgroup_killed = kernel_.TookOomKill();
    evidence.kernel_line = kernel_.LineAbout(rank.process.pid);
    evidence.kernel_lines = kernel_.RecentLines(MonotonicNs() / 1000);
  }
  ExitCause cause = JudgeExit(evidence);
  if (evidence.cgroup_killed) cause.memory_limit = memory_.TakeLimitOfKill();
  NameClass(rules_.has_value() ? *rules_ : logclass::BuiltinRules(), evidence, &cause);
  if (setup_.rings != nullptr) {
    ExplainByCalls(*setup_.rings, page_.slot_count(), rank.generation, rank.rank, &cause);
  }
  return cause;
}

std::vector<FoundRank> RankTable::Find(bool with_ended) {
  uint64_t newest = 0;
  for (uint32_t slot = 0; slot < page_.slot_count(); ++slot) {
    if (const auto reading = page_.Read(slot)) newest = std::max(newest, reading->generation);
  }
  std::vector<FoundRank> all;
  for (uint32_t slot = 0; slot < page_.slot_count(); ++slot) {
    const std::optional<SlotReading> reading = page_.Read(slot);
    if (!reading.has_value()) continue;
    const ProcessId process = ProcessOf(*reading);
    const bool is_alive = IsAlive(process);
    // Each task has a generation of its own, so every end may be news.
    const bool is_old = reading->generation != newest && !setup_.job.tasks.is_on();
    if (Has(process) || (!is_alive && (!with_ended || is_old))) continue;
    RankReport report = ReportOf(*reading);
    if (!is_alive) {
      report.state = RankReport::State::kExited;
      report.exit = JudgeOld(*reading);
      report.ended_for = EndedFor(*reading);
    } else if (report.state == RankReport::State::kExited) {
      report.state = RankReport::State::kRunning;
    }
    all.push_back({std::move(report), reading->start_time_ticks, is_alive});
  }
  return all;
}

ExitCause RankTable::JudgeOld(const SlotReading& reading) {
  Living rank;
  rank.process = ProcessOf(reading);
  rank.generation = Generation(reading.generation);
  rank.rank = Rank(static_cast<uint32_t>(reading.rank));
  return Judge(rank, reading.wait_status, reading.port_taken);
}

void RankTable::NoteQuiet(Living* rank, RankReport* report) const {
  const int64_t now = MonotonicNs();
  if (setup_.rings == nullptr || now < rank->quiet_from_ns) return;
  const std::optional<RingPulse> pulse = setup_.rings->Pulse(report->local_rank, rank->generation);
  if (!pulse.has_value()) return;
  const Duration quiet = Duration::Nanoseconds(now - pulse->last_event_ns);
  report->is_quiet = quiet >= diagnose::QuietLimit(Duration::Nanoseconds(pulse->step_p99_ns));
  if (report->is_quiet) report->phase = pulse->phase;
  rank->quiet_from_ns = pulse->last_event_ns + diagnose::kQuietMin.nanoseconds();
}

std::vector<RankReport> RankTable::ReadProgress() {
  std::vector<RankReport> reports;
  for (auto& [local_rank, rank] : ranks_) {
    const std::optional<SlotReading> reading = ReadingOf(local_rank, rank);
    if (!reading.has_value() || reading->wait_status.has_value()) continue;
    RankReport& report = reports.emplace_back(ReportOf(*reading));
    NoteQuiet(&rank, &report);
    // However slow its steps were. It has no step any more.
    const bool has_raised = reading->error_monotonic_ns != 0;
    if (has_raised && MonotonicNs() - reading->error_monotonic_ns > kRaisedQuietNs) {
      report.is_quiet = true;
      report.phase = RankPhase::kEnd;
    }
  }
  return reports;
}

namespace {

// The phase that lasts counts until `until_ns`.
RankTimes TimesOf(const RingPulse& pulse, Generation generation, Rank rank, int64_t until_ns) {
  RankTimes times{.generation = generation,
                  .rank = rank,
                  .times = *pulse.spent,
                  .phase = pulse.phase,
                  .is_piped = pulse.sums.is_piped};
  const int64_t lasts = std::max<int64_t>(0, until_ns - pulse.phase_since_ns);
  times.times.of[static_cast<size_t>(pulse.phase)] += Duration::Nanoseconds(lasts);
  return times;
}

}  // namespace

void RankTable::ReadRings(std::vector<RankSample>* samples, std::vector<RankTimes>* times) {
  if (setup_.rings == nullptr) return;
  const int64_t now = MonotonicNs();
  for (auto& [local_rank, rank] : ranks_) {
    if (now < rank.sample_from_ns && now < rank.times_from_ns) continue;
    const std::optional<RingPulse> pulse = setup_.rings->Pulse(local_rank, rank.generation);
    if (!pulse.has_value()) continue;
    if (now >= rank.times_from_ns && pulse->spent.has_value()) {
      rank.times_from_ns = now + kTimesEvery.nanoseconds();
      times->push_back(TimesOf(*pulse, rank.generation, rank.rank, now));
    }
    if (now < rank.sample_from_ns || pulse->sums.steps <= rank.sampled_steps) continue;
    rank.sample_from_ns = now + kSampleTime.nanoseconds();
    rank.sampled_steps = pulse->sums.steps;
    const std::optional<SlotReading> reading = ReadingOf(local_rank, rank);
    samples->push_back(
        {.generation = rank.generation,
         .rank = rank.rank,
         .sums = pulse->sums,
         .shares_batch = reading.has_value() && (reading->flags & kSlotSharesBatch) != 0});
  }
}

std::optional<NodeMemory> RankTable::TakeMemory() {
  std::vector<int32_t> pids;
  for (const auto& [local_rank, rank] : ranks_) pids.push_back(rank.process.pid);
  return memory_.TakeNews(MonotonicNs(), pids);
}

void RankTable::NoteLastTimes(uint32_t local_rank, const Living& rank, int64_t ended_ns) {
  last_times_.erase(local_rank);
  if (setup_.rings == nullptr) return;
  const std::optional<RingPulse> pulse = setup_.rings->Pulse(local_rank, rank.generation);
  if (!pulse.has_value() || !pulse->spent.has_value()) return;
  RankTimes& times = last_times_[local_rank];
  times = TimesOf(*pulse, rank.generation, rank.rank, ended_ns > 0 ? ended_ns : MonotonicNs());
  times.has_ended = true;
}

std::optional<RankTimes> RankTable::TakeLastTimes(const RankReport& ended) {
  const auto it = last_times_.find(ended.local_rank);
  if (it == last_times_.end() || it->second.generation != ended.generation) return std::nullopt;
  const RankTimes times = it->second;
  last_times_.erase(it);
  return times;
}

std::vector<WatchedRank> RankTable::Watched(Generation generation) const {
  std::vector<WatchedRank> watched;
  for (const auto& [local_rank, rank] : ranks_) {
    if (rank.generation != generation) continue;
    WatchedRank& one = watched.emplace_back();
    one.rank = rank.rank;
    one.local_rank = local_rank;
    one.process = rank.process;
    const std::optional<SlotReading> reading = ReadingOf(local_rank, rank);
    if (!reading.has_value() || reading->error_monotonic_ns == 0) continue;
    one.raised_ns = reading->error_monotonic_ns;
    one.error_record = setup_.files.ErrorRecord(generation.value(), rank.rank.value());
  }
  return watched;
}

bool RankTable::Has(const ProcessId& process) const {
  for (const auto& [local_rank, rank] : ranks_) {
    if (rank.process == process) return true;
  }
  return false;
}

void RankTable::TendLogs() {
  if (newest_generation_ == 0) return;
  LogTender::Round round{.generation = newest_generation_};
  for (const auto& [local_rank, rank] : ranks_) {
    round.ranks.push_back({rank.generation.value(), rank.rank.value()});
  }
  log_tender_.Begin(std::move(round));
}

}  // namespace paceline::agent
