#include "paceline/agent/hang/evidence_desk.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "paceline/agent/agent_files.h"
#include "paceline/agent/hang/process_look.h"
#include "paceline/agent/ranks/exit_cause.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{500};
// A thread sleeps for kNap. If it wakes more than kLate later, the host had no free processor.
constexpr std::chrono::milliseconds kNap{10};
constexpr std::chrono::milliseconds kLate{200};
constexpr Duration kSamplePatience = Duration::Seconds(3);
// For all ranks together. The master waits 8 s, and an answer without stacks is still useful.
constexpr Duration kSamplesPatience = Duration::Seconds(5);
constexpr std::string_view kHangPrefix = "hang-";
constexpr std::string_view kPersonPrefix = "stacks-";

bool IsOfPerson(const EvidenceDesk::Question& question) {
  return (question.round & kAskedByPerson) != 0;
}

// "hang-3-12": look number 12 at world 3.
std::string FolderOf(const EvidenceDesk::Question& question) {
  return Concat(IsOfPerson(question) ? kPersonPrefix : kHangPrefix, question.generation.value(),
                "-", question.round & ~kAskedByPerson);
}

std::vector<ProcessLook> LookAtAll(const EvidenceDesk::Question& question) {
  std::vector<ProcessLook> looks;
  for (const WatchedRank& rank : question.ranks) looks.push_back(LookAt(rank.process));
  return looks;
}

void TakeRaised(const WatchedRank& rank, RankEvidence* evidence) {
  if (rank.raised_ns == 0) return;
  evidence->raised_for = Duration::Nanoseconds(MonotonicNs() - rank.raised_ns);
  const std::string record = ReadText(rank.error_record, kErrorRecordBytesMax);
  const std::optional<ExitCause> cause = CauseByRecord(record, rank.process.pid);
  evidence->raised = cause.has_value() ? cause->headline : std::string(kUnknownException);
  evidence->raised_as = cause.has_value() ? cause->fingerprint : std::string(kUnknownException);
  evidence->raised_is_final = cause.has_value() && cause->is_final;
}

std::vector<ProcessId> ProcessesOf(const EvidenceDesk::Question& question) {
  std::vector<ProcessId> processes;
  for (const WatchedRank& rank : question.ranks) processes.push_back(rank.process);
  return processes;
}

bool NapIsLate() {
  const int64_t begun = MonotonicNs();
  std::this_thread::sleep_for(kNap);
  return std::chrono::nanoseconds(MonotonicNs() - begun) > kNap + kLate;
}

}  // namespace

void TakeRing(const FlightReading& reading, int64_t now_ns, RankEvidence* evidence) {
  const RingPulse& pulse = reading.pulse;
  const auto since = [now_ns](int64_t then) {
    return Duration::Nanoseconds(std::max<int64_t>(0, now_ns - then));
  };
  evidence->has_ring = true;
  evidence->phase = pulse.phase;
  evidence->in_phase = since(pulse.phase_since_ns);
  evidence->quiet_for = since(pulse.last_event_ns);
  evidence->step_p99 = Duration::Nanoseconds(std::max<int64_t>(0, pulse.step_p99_ns));
  const int64_t longest = pulse.longest_ns[static_cast<size_t>(pulse.phase)];
  evidence->phase_longest = Duration::Nanoseconds(std::max<int64_t>(0, longest));
  std::map<std::string, size_t> seen;  // number of folders of each group
  for (auto entry = reading.entries.rbegin(); entry != reading.entries.rend(); ++entry) {
    if (entry->kind != FlightKind::kCollective) continue;
    const bool is_new = !seen.contains(entry->group);
    if (is_new && seen.size() == kGroupsSeenMax) continue;
    if (++seen[entry->group] > kCollectivesSeenMax) continue;
    evidence->collectives.push_back({.group = entry->group,
                                     .sequence = entry->sequence,
                                     .operation = entry->operation,
                                     .dtype = entry->dtype,
                                     .bytes = entry->bytes,
                                     .site = entry->site,
                                     .age = since(entry->begun_ns),
                                     .is_complete = entry->is_complete()});
  }
  std::reverse(evidence->collectives.begin(), evidence->collectives.end());
}

EvidenceDesk::EvidenceDesk(Reactor& reactor, const Setup& setup, Answer answer)
    : reactor_(reactor),
      rings_({setup.memory, setup.node, setup.mark}),
      sampler_(setup.python),
      log_dir_(setup.log_dir),
      answer_(std::move(answer)) {}

EvidenceDesk::~EvidenceDesk() {
  if (thread_.joinable()) thread_.join();
}

void EvidenceDesk::Ask(Question question) {
  waiting_[IsOfPerson(question)] = std::move(question);
  if (!is_looking_) Begin();
}

void EvidenceDesk::Begin() {
  if (thread_.joinable()) thread_.join();
  is_looking_ = true;
  const Question next = waiting_.begin()->second;
  waiting_.erase(waiting_.begin());
  thread_ = std::thread([this, question = next] {
    NodeEvidence evidence = Look(question);
    reactor_.Post([this, question, evidence = std::move(evidence)]() mutable {
      is_looking_ = false;
      AddStops(question, &evidence);
      answer_(evidence);
      if (!waiting_.empty()) Begin();
    });
  });
}

void EvidenceDesk::NoteStops(const std::vector<StarterChild>& children) {
  for (const StarterChild& child : children) {
    if (child.stopped_by != 0) stops_[child.pid] = child.stopped_by;
  }
}

void EvidenceDesk::AddStops(const Question& question, NodeEvidence* evidence) {
  for (RankEvidence& rank : evidence->ranks) {
    if (rank.state != 'T') continue;
    for (const WatchedRank& watched : question.ranks) {
      if (watched.rank != rank.rank) continue;
      const auto found = stops_.find(watched.process.pid);
      if (found != stops_.end()) rank.stopped_by = found->second;
    }
  }
  stops_.clear();
}

RankEvidence EvidenceDesk::LookAtRing(const WatchedRank& rank, Generation generation) const {
  RankEvidence evidence;
  evidence.rank = rank.rank;
  evidence.pid = rank.process.pid;
  const std::optional<FlightReading> reading = rings_.Read(rank.local_rank, generation);
  if (reading.has_value()) TakeRing(*reading, MonotonicNs(), &evidence);
  TakeRaised(rank, &evidence);
  return evidence;
}

NodeEvidence EvidenceDesk::Look(const Question& question) {
  NodeEvidence node{.generation = question.generation, .round = question.round, .ranks = {}};
  const int64_t begun = MonotonicNs();
  const std::vector<ProcessLook> first = LookAtAll(question);
  const bool is_pressed = NapIsLate() || IsHostPressed();
  idle_.Keep(ProcessesOf(question));
  DropOldFolders();
  const std::string folder = Concat(log_dir_, "/", FolderOf(question));
  MakeDirs(folder, 0700).IgnoreError();  // the sampler reports a failure
  std::vector<StackSample> stacks;
  for (const WatchedRank& rank : question.ranks) {
    const std::string path = Concat(folder, "/rank", rank.rank.value(), ".json");
    const Duration left = kSamplesPatience - Duration::Nanoseconds(MonotonicNs() - begun);
    if (left <= Duration()) {
      stacks.push_back(
          {.frames = {}, .problem = "no time was left: py-spy was slow with other ranks"});
      continue;
    }
    stacks.push_back(sampler_.Sample(rank.process.pid, path, std::min(left, kSamplePatience)));
  }
  std::chrono::nanoseconds nap = kBetweenLooks - std::chrono::nanoseconds(MonotonicNs() - begun);
  int64_t looked_at = 0;
  const std::vector<ProcessLook> looks = SettledLooks(first, [&] {
    if (nap > nap.zero()) std::this_thread::sleep_for(nap);
    nap = kBetweenLooks;
    looked_at = MonotonicNs();
    return LookAtAll(question);
  });
  const Duration watched = Duration::Nanoseconds(looked_at - begun);
  for (size_t i = 0; i < question.ranks.size(); ++i) {
    const ProcessLook& last = looks[i];
    if (!last.is_there || !first[i].is_there) continue;  // it has ended; that is reported elsewhere
    RankEvidence evidence = LookAtRing(question.ranks[i], question.generation);
    evidence.state = last.state;
    evidence.watched = watched;
    // If a child has ended, its CPU time is missing from the second look.
    evidence.cpu = std::max(Duration(), last.cpu - first[i].cpu);
    evidence.moved = last.bytes != first[i].bytes;
    evidence.idle_for = idle_.Note(question.ranks[i].process, last, MonotonicNs());
    evidence.is_pressed = is_pressed;
    evidence.waits_in = last.waits_in;
    evidence.stopped_child = last.stopped_child;
    evidence.stack = stacks[i].frames;
    evidence.no_stack = stacks[i].problem;
    node.ranks.push_back(std::move(evidence));
  }
  return node;
}

void EvidenceDesk::DropOldFolders() const {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> folders;
  // No range-for: its increment throws if the file system fails, on a thread that catches nothing.
  for (fs::directory_iterator entry(log_dir_, error), end; entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(kHangPrefix) && !name.starts_with(kPersonPrefix)) continue;
    folders.emplace_back(entry->last_write_time(error), entry->path());
  }
  std::sort(folders.begin(), folders.end());
  for (size_t i = 0; i + kFoldersMax <= folders.size(); ++i) {
    fs::remove_all(folders[i].second, error);
  }
}

}  // namespace paceline::agent
