#pragma once

// The rules' input, and their common phrases.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/diagnose/facts.h"
#include "paceline/diagnose/wait_graph.h"

namespace paceline::diagnose {

// The operation with which python/paceline/_rank/hooks/start.py records a rank that waits for the
// others in init_process_group.
inline constexpr std::string_view kStartOperation = "init_process_group";

struct Scene {
  const Facts& facts;
  WaitGraph graph;

  const RankFacts* Find(uint32_t rank) const;  // null: its agent did not answer
  // The wait of the rank that began to wait first.
  Duration LongestWait(const std::set<uint32_t>& waiters) const;
};

// A rule gives a verdict on a scene, or none. To add one, write rule/<name>.cc and a line in
// judge.cc. The first rule with a verdict decides.
struct Rule {
  std::string_view name;
  std::optional<Verdict> (*judge)(const Scene& scene);
};

// True if the rank can run, however little CPU time a busy machine gives it.
bool IsBusy(const RankEvidence& rank);
// Ranks that wait without a record: a torch without hooks does not show DDP's collectives, which
// block each rank's backward until all have come. Empty unless all ranks but `absent` do that.
std::set<uint32_t> AsleepInBackward(const Scene& scene, uint32_t absent);
// The least time since one of these ranks did something. Infinite if there are none.
Duration ShortestQuiet(const Scene& scene, const std::set<uint32_t>& ranks);
// " Ranks 0 and 3 have slept in backward for 3.0 s.", or "" if there are none.
std::string AsleepText(const std::set<uint32_t>& asleep, Duration slept);
// No verdict yet: look again after that time.
Verdict TooEarly(Duration left);
std::vector<Rank> RanksOf(const std::set<uint32_t>& ranks);

// The system call in which all these ranks wait for one thing: "read of /data/train.bin". "" if
// they do not.
std::string SharedWait(const Scene& scene, const std::set<uint32_t>& ranks);

// "rank 2 on node0", "ranks 0, 1 and 3", "ranks 0–7 and 9".
std::string RankText(const RankFacts& rank);
std::string RanksText(const std::set<uint32_t>& ranks);
// True for lines of a training script; false for torch, Python and packages.
bool IsOfScript(const StackFrame& frame);
// "train.py:41": the innermost line outside torch and the standard library; "" without a stack.
std::string PlaceOf(const RankEvidence& rank);
// " in train.py:41, forward", ", forward", or "" if neither is known.
std::string WhereText(const RankEvidence& rank);
// "all_reduce 188 of the world (train.py:44)", or "all_reduce 3 of group 2 (ranks 0-1, created
// second) at train.py:44".
std::string CollectiveText(const CollectiveSeen& seen, uint32_t world_size);
// "the world", or "group 2 (ranks 0-3, created second)": groups of the same ranks differ by the
// order in which the script created them. `group` is its name and members, as ranks report it.
std::string GroupText(const std::string& group, uint32_t world_size);
// "its loader's worker, process 71, is stopped (kill -CONT 71 continues it)"; "" if no child of the
// rank is stopped.
std::string StoppedChildText(const RankEvidence& rank);
// With a capital first letter: "Rank 2 on node0".
std::string Capitalized(std::string text);
// "3.0 s".
std::string SecondsText(Duration duration);
// "Ranks 0, 1 and 3 waited 3.0 s for it in all_reduce 188 of the world (train.py:44)."
std::string WaitText(const Scene& scene, const std::set<uint32_t>& waiters, size_t awaited);
// Adds a line with the facts of each rank, culprits first, up to a maximum.
void AddLines(const Scene& scene, Verdict* verdict);

}  // namespace paceline::diagnose
