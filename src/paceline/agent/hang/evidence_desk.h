#pragma once

// Answers the master's question what this node's ranks do. A thread looks twice at each process and
// takes its stack; the loop goes on meanwhile. One question at a time: a newer one waits for the
// answer to the one before it, and takes the place of one of its kind that waits. The kinds are a
// hang's and a person's, so neither keeps the other from being answered.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "paceline/agent/hang/flight_rings.h"
#include "paceline/agent/hang/stack_sampler.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/agent/ranks/starter_message.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/model/evidence.h"

namespace paceline::agent {

// A living rank that is looked at.
struct WatchedRank {
  Rank rank;
  uint32_t local_rank = 0;
  ProcessId process;
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
    std::string memory;  // of the job, as ArenaRoots(job).memory: rings lie there
    std::string node;
    std::string python;   // the job's interpreter
    std::string log_dir;  // what py-spy says is kept in folders here, the newest kFoldersMax
  };
  // `reactor` outlives the desk. `answer` is called by its loop.
  EvidenceDesk(Reactor& reactor, const Setup& setup, Answer answer);
  ~EvidenceDesk();
  EvidenceDesk(const EvidenceDesk&) = delete;
  EvidenceDesk& operator=(const EvidenceDesk&) = delete;

  void Ask(Question question);
  // The starter's word on ranks that were stopped: only a parent can ask which signal did it.
  void NoteStops(const std::vector<StarterChild>& children);
  FlightRings& rings() { return rings_; }

  static constexpr size_t kFoldersMax = 20;

 private:
  void Begin();
  void AddStops(const Question& question, NodeEvidence* evidence);
  NodeEvidence Look(const Question& question) const;
  RankEvidence LookAtRing(const WatchedRank& rank, Generation generation) const;
  void DropOldFolders() const;

  Reactor& reactor_;
  FlightRings rings_;
  const StackSampler sampler_;
  const std::string log_dir_;
  const Answer answer_;
  std::map<bool, Question> waiting_;  // a person's: true
  bool is_looking_ = false;
  std::map<pid_t, int> stops_;  // of the present question
  std::thread thread_;
};

// What a ring says, as evidence; times are of `now_ns`.
void TakeRing(const FlightReading& reading, int64_t now_ns, RankEvidence* evidence);

}  // namespace paceline::agent
