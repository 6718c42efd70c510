// Made jobs whose culprits are known, and a second, obvious implementation of the wait graph.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "paceline/base/prng.h"
#include "paceline/base/text.h"
#include "paceline/diagnose/judge.h"
#include "paceline/diagnose/testing/made_job.h"
#include "paceline/diagnose/testing/scenes.h"
#include "paceline/diagnose/wait_graph.h"

namespace paceline::diagnose {
namespace {

using RankSet = std::set<uint32_t>;

// `PACELINE_MADE_JOBS=1000 PACELINE_MADE_RANKS=8192 diagnose_test` runs as many, as large.
uint32_t Given(const char* name, uint32_t otherwise) {
  const char* given = std::getenv(name);
  return given == nullptr ? otherwise : ParseWhole<uint32_t>(given).value_or(otherwise);
}

RankSet CulpritsOf(const Verdict& verdict) {
  RankSet culprits;
  for (const Rank rank : verdict.culprits) culprits.insert(rank.value());
  return culprits;
}

TEST(MadeJobs, TheRanksThatHangAreNamedAndNoOther) {
  const uint32_t jobs = Given("PACELINE_MADE_JOBS", 60);
  const uint32_t ranks_max = Given("PACELINE_MADE_RANKS", 512);
  uint32_t right = 0;
  std::string wrong;
  for (uint32_t seed = 1; seed <= jobs; ++seed) {
    Prng random(seed);
    const testing::MadeJob job = testing::DrawMadeJob(random, ranks_max);
    const testing::MadeFacts made = testing::RunMadeJob(job, random);
    const Verdict verdict = Judge(made.facts);
    if (CulpritsOf(verdict) == made.culprits) {
      ++right;
    } else {
      Append(&wrong, "\nseed ", seed, ": ", job.tensor, " x ", job.data, " x ", job.stages,
             " ranks, fault ", static_cast<int>(job.fault), ", ", made.culprits.size(),
             " hang: ", verdict.sentence);
    }
  }
  RecordProperty("jobs", std::to_string(jobs));
  RecordProperty("right", std::to_string(right));
  EXPECT_GE(right * 100, jobs * 99) << right << " of " << jobs << wrong;
}

// ---- the twin ----
// The definition, a pair at a time.
bool Awaits(const WaitGraph& graph, const RankSet& known, uint32_t rank, uint32_t other) {
  return std::any_of(graph.groups.begin(), graph.groups.end(), [&](const Group& group) {
    const auto at = group.positions.find(rank);
    const bool waits = at != group.positions.end() && at->second.waits_in != nullptr;
    const bool is_member =
        std::find(group.members.begin(), group.members.end(), other) != group.members.end();
    if (!waits || !is_member || !known.contains(other) || other == rank) return false;
    const auto there = group.positions.find(other);
    if (there == group.positions.end()) return true;
    const uint64_t needed = at->second.waits_in->sequence;
    return there->second.begun < needed || there->second.completed + 1 < needed;
  });
}

Facts RandomFacts(Prng& random) {
  const auto size = static_cast<uint32_t>(2 + random.Below(7));
  testing::SceneMaker made(size);
  const uint64_t groups = 1 + random.Below(4);
  for (uint64_t i = 0; i < groups; ++i) {
    std::vector<uint32_t> members;
    for (uint32_t rank = 0; rank < size; ++rank) {
      if (random.Below(2) == 0) members.push_back(rank);
    }
    if (members.size() < 2) continue;
    std::string name = Concat("g", i);
    for (size_t k = 0; k < members.size(); ++k) Append(&name, k == 0 ? " " : ",", members[k]);
    for (const uint32_t rank : members) {
      const uint64_t begun = random.Below(4);
      const uint64_t completed = random.Below(begun + 1);
      for (uint64_t sequence = 1; sequence <= begun; ++sequence) {
        made.Add(rank, sequence <= completed ? testing::Left(name, sequence)
                                             : testing::Entered(name, sequence));
      }
    }
  }
  if (random.Below(3) == 0) made.Forget(static_cast<uint32_t>(random.Below(size)));
  return made.facts();
}

// The circle by its definition: waiters of which each has another one that waits for it.
RankSet CircleByDefinition(const WaitGraph& graph, const RankSet& known, RankSet left) {
  for (size_t before = left.size() + 1; left.size() < before;) {
    before = left.size();
    const RankSet now = left;
    std::erase_if(left, [&](uint32_t rank) {
      return std::none_of(now.begin(), now.end(),
                          [&](uint32_t other) { return Awaits(graph, known, other, rank); });
    });
  }
  return left;
}

TEST(MadeJobs, TheGraphEqualsItsDefinition) {
  size_t with_roots = 0;
  size_t with_circle = 0;
  for (uint64_t seed = 1; seed <= 3'000; ++seed) {
    Prng random(seed);
    const Facts facts = RandomFacts(random);
    const WaitGraph graph = MakeWaitGraph(facts);
    RankSet known;
    for (const RankFacts& rank : facts.ranks) known.insert(rank.evidence.rank.value());
    RankSet awaited;
    RankSet waiters;
    for (const uint32_t rank : known) {
      RankSet others;
      for (const uint32_t other : known) {
        if (Awaits(graph, known, rank, other)) others.insert(other);
      }
      ASSERT_EQ(others, AwaitedBy(graph, rank)) << "seed " << seed << ", rank " << rank;
      if (!others.empty()) waiters.insert(rank);
      awaited.merge(others);
    }
    RankSet roots = awaited;
    std::erase_if(roots, [&waiters](uint32_t rank) { return waiters.contains(rank); });
    ASSERT_EQ(roots, graph.roots) << "seed " << seed;
    const RankSet circle = roots.empty() ? CircleByDefinition(graph, known, waiters) : RankSet();
    ASSERT_EQ(circle, graph.circle) << "seed " << seed;
    // Whoever waits for a root, through any number of others.
    RankSet reached = roots;
    for (size_t before = 0; reached.size() > before;) {
      before = reached.size();
      for (const uint32_t rank : waiters) {
        const bool waits = std::any_of(reached.begin(), reached.end(), [&](uint32_t other) {
          return Awaits(graph, known, rank, other);
        });
        if (waits) reached.insert(rank);
      }
    }
    for (const uint32_t rank : roots) reached.erase(rank);
    ASSERT_EQ(reached, WaitersFor(graph, roots)) << "seed " << seed;
    with_roots += roots.empty() ? 0 : 1;
    with_circle += circle.empty() ? 0 : 1;
  }
  EXPECT_GT(with_roots, 500U);
  EXPECT_GT(with_circle, 10U);
}

}  // namespace
}  // namespace paceline::diagnose
