#pragma once

// What rules look at, and the words they share.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/diagnose/facts.h"
#include "paceline/diagnose/wait_graph.h"

namespace paceline::diagnose {

// The operation under which python/paceline/_rank/hooks/start.py records a rank that waits in
// init_process_group for the others.
inline constexpr std::string_view kStartOperation = "init_process_group";

struct Scene {
  const Facts& facts;
  WaitGraph graph;

  const RankFacts* Find(uint32_t rank) const;  // null: its agent told nothing
  // The ranks that wait for one of `awaited`, straight or by way of others.
  std::set<uint32_t> WaitersFor(const std::set<uint32_t>& awaited) const;
  // How long the one of them that began first has waited.
  Duration LongestWait(const std::set<uint32_t>& waiters) const;
};

// A rule judges a scene, or says nothing of it. To add one, write rule/<name>.cc and a line in
// rules.cc; the first rule of the list that says something is believed.
struct Rule {
  std::string_view name;
  std::optional<Verdict> (*judge)(const Scene& scene);
};

// Who is able to run computes, however little of a busy machine's time it gets.
bool IsBusy(const RankEvidence& rank);
// Nothing is said yet: look again after that time.
Verdict TooEarly(Duration left);
std::vector<Rank> RanksOf(const std::set<uint32_t>& ranks);

// "rank 2 on node0", "ranks 0, 1 and 3", "ranks 0–7 and 9".
std::string RankText(const RankFacts& rank);
std::string RanksText(const std::set<uint32_t>& ranks);
// "train.py:41": the innermost line outside torch and Python's own library. Empty without a stack.
std::string PlaceOf(const RankEvidence& rank);
// " in train.py:41, forward", ", forward", or nothing when neither is known.
std::string WhereText(const RankEvidence& rank);
// "all_reduce 188 of the world (train.py:44)".
std::string CollectiveText(const CollectiveSeen& seen, uint32_t world_size);
// "the world", or "the group of ranks 0-3".
std::string GroupText(const std::string& group, uint32_t world_size);
// With a capital letter in front: "Rank 2 on node0".
std::string Capitalized(std::string text);
// "3.0 s".
std::string SecondsText(Duration duration);
// "Ranks 0, 1 and 3 waited 3.0 s for it in all_reduce 188 of the world (train.py:44)."
std::string WaitText(const Scene& scene, const std::set<uint32_t>& waiters, size_t awaited);
// Adds the facts of each rank, a line each, culprits first; at most so many.
void AddLines(const Scene& scene, Verdict* verdict);

}  // namespace paceline::diagnose
