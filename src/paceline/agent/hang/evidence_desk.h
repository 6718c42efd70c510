#pragma once

// Answers the master's question what this node's ranks are doing. A thread looks twice at each
// process and takes its stacks, while the loop continues. There are two kinds of questions: for a
// hang, and from a person. One question is answered at a time. A newer question waits and replaces
// a waiting one of its kind, so neither kind starves the other.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "paceline/agent/hang/flight_rings.h"
#include "paceline/agent/hang/idle_watch.h"
#include "paceline/agent/hang/stack_sampler.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/agent/starter/starter_message.h"
#include "paceline/model/evidence.h"

namespace paceline::agent {

// A living rank to look at.
struct WatchedRank {
  Rank rank;
  uint32_t local_rank = 0;
  ProcessId process;
  // When an exception reached the top of its script, and the file about it. 0: none did.
  int64_t raised_ns = 0;
  std::string error_record;
};

class EvidenceDesk {
 public:
  struct Question {
    Generation generation;
    uint64_t round = 0;
    std::vector<WatchedRank> ranks;
  };
  using Answer = std::function<void(const NodeEvidence&)>;

  struct Setup {
    std::string memory;  // of the job, as ArenaRoots(job).memory; has the rings
    std::string node;
    std::string mark;     // AgentFiles::Mark
    std::string python;   // the job's interpreter
    std::string log_dir;  // py-spy's output goes to folders here; the newest kFoldersMax stay
  };
  // `reactor` must outlive the desk. The loop calls `answer`.
  EvidenceDesk(Reactor& reactor, const Setup& setup, Answer answer);
  ~EvidenceDesk();
  EvidenceDesk(const EvidenceDesk&) = delete;
  EvidenceDesk& operator=(const EvidenceDesk&) = delete;

  void Ask(Question question);
  // Notes stopped ranks from the starter: only a parent can ask which signal stopped a process.
  void NoteStops(const std::vector<StarterChild>& children);
  FlightRings& rings() { return rings_; }

  static constexpr size_t kFoldersMax = 20;

 private:
  void Begin();
  void AddStops(const Question& question, NodeEvidence* evidence);
  NodeEvidence Look(const Question& question);
  RankEvidence LookAtRing(const WatchedRank& rank, Generation generation) const;
  void DropOldFolders() const;

  Reactor& reactor_;
  FlightRings rings_;
  const StackSampler sampler_;
  const std::string log_dir_;
  const Answer answer_;
  std::map<bool, Question> waiting_;  // a person's question: true
  bool is_looking_ = false;
  std::map<pid_t, int> stops_;  // for the current question
  IdleWatch idle_;              // of the thread
  std::thread thread_;
};

// Adds a ring's content to the evidence. Times are relative to `now_ns`.
void TakeRing(const FlightReading& reading, int64_t now_ns, RankEvidence* evidence);

}  // namespace paceline::agent
