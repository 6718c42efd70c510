// Pairs of hosts: which hosts and links are bad, by brute force over all small jobs.

#include "paceline/diagnose/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

namespace paceline::diagnose {
namespace {

constexpr uint32_t kSmall = 8;

using Fails = std::function<bool(const Pair&)>;

// As a job does it: the tournament, then the failed pairs once more.
PairsVerdict Tested(uint32_t count, const Fails& fails) {
  std::vector<Pair> tested;
  std::vector<Pair> failed;
  const auto test = [&](const std::vector<std::vector<Pair>>& rounds) {
    for (const auto& round : rounds) {
      for (const Pair& pair : round) {
        if (std::find(tested.begin(), tested.end(), pair) != tested.end()) continue;
        tested.push_back(pair);
        if (fails(pair)) failed.push_back(pair);
      }
    }
  };
  test(PairRounds(count));
  test(SecondRounds(count, tested, failed));
  return JudgePairs(count, tested, failed);
}

TEST(Pairs, ARoundHasEachHostOnceAndNoPairComesTwice) {
  for (uint32_t count = 0; count <= 64; ++count) {
    const auto rounds = PairRounds(count);
    EXPECT_LE(rounds.size(), std::max(count, 1U) - 1) << count;
    EXPECT_LE(rounds.size(), kPairRoundsMax);
    std::set<Pair> all;
    for (const auto& round : rounds) {
      std::set<uint32_t> hosts;
      for (const Pair& pair : round) {
        EXPECT_LT(pair.a, pair.b);
        EXPECT_LT(pair.b, count);
        EXPECT_TRUE(hosts.insert(pair.a).second && hosts.insert(pair.b).second) << count;
        EXPECT_TRUE(all.insert(pair).second) << count;
      }
      EXPECT_EQ(round.size(), count / 2);
    }
    if (count <= kSmall && count % 2 == 0 && count > 0) {
      EXPECT_EQ(all.size(), count * (count - 1) / 2);
    }
  }
}

TEST(Pairs, BadHostsAreFoundExactlyIfTwoAreGood) {
  for (uint32_t count = 2; count <= kSmall; ++count) {
    for (uint32_t set = 0; set < (1U << count); ++set) {
      const auto is_bad = [set](uint32_t host) { return (set >> host & 1) != 0; };
      std::vector<uint32_t> bad;
      for (uint32_t host = 0; host < count; ++host) {
        if (is_bad(host)) bad.push_back(host);
      }
      const PairsVerdict said =
          Tested(count, [&](const Pair& pair) { return is_bad(pair.a) || is_bad(pair.b); });
      EXPECT_TRUE(said.bad_links.empty());
      if (count - bad.size() >= 2) {
        EXPECT_EQ(said.bad, bad) << count << " hosts, set " << set;
        EXPECT_TRUE(said.one_of.empty()) << count << " hosts, set " << set;
      } else {  // no test passed: nobody can know
        EXPECT_TRUE(said.bad.empty());
        EXPECT_EQ(said.one_of.size(), count);
      }
    }
  }
}

TEST(Pairs, ABadLinkBetweenGoodHostsIsNamedAndNoHostIs) {
  for (uint32_t count = 4; count <= kSmall; ++count) {
    for (const auto& round : PairRounds(count)) {
      for (const Pair& bad : round) {
        const PairsVerdict said = Tested(count, [&](const Pair& pair) { return pair == bad; });
        EXPECT_EQ(said, (PairsVerdict{.bad = {}, .bad_links = {bad}, .one_of = {}})) << count;
      }
    }
  }
}

TEST(Pairs, OfTwoHostsOneOrTheirLinkIsBad) {
  const PairsVerdict said = Tested(2, [](const Pair&) { return true; });
  EXPECT_EQ(said, (PairsVerdict{.bad = {}, .bad_links = {}, .one_of = {0, 1}}));
}

TEST(Pairs, WithThreeHostsOneBadLinkIsTold) {
  const PairsVerdict said = Tested(3, [](const Pair& pair) {
    return pair == Pair{0, 1} || pair == Pair{0, 2};
  });
  EXPECT_EQ(said.bad, (std::vector<uint32_t>{0}));
  const PairsVerdict link = Tested(3, [](const Pair& pair) { return pair == Pair{0, 2}; });
  EXPECT_EQ(link, (PairsVerdict{.bad = {}, .bad_links = {{0, 2}}, .one_of = {}}));
}

TEST(Pairs, AManyHostJobFindsAFewBadHosts) {
  for (uint32_t count = kSmall + 1; count <= 40; ++count) {
    for (uint32_t first = 0; first < count; ++first) {
      const std::set<uint32_t> bad = {first, (first + 3) % count};
      const PairsVerdict said = Tested(
          count, [&](const Pair& pair) { return bad.contains(pair.a) || bad.contains(pair.b); });
      EXPECT_EQ(said.bad, (std::vector<uint32_t>(bad.begin(), bad.end()))) << count;
    }
  }
}

TEST(Pairs, ASlowPairIsBelowHalfOfTheMedianOfTheOthers) {
  const auto pair = [](uint32_t a, uint32_t b, double gb_s) {
    return PairTried{.pair = {a, b}, .gb_s = gb_s, .problem = ""};
  };
  EXPECT_EQ(FailedPairs({pair(0, 1, 1.0), pair(0, 2, 0.01)}), std::vector<Pair>{});  // who is odd?
  EXPECT_EQ(FailedPairs({pair(0, 1, 1.0), pair(0, 2, 0.4), pair(1, 2, 1.1)}),
            (std::vector<Pair>{{0, 2}}));
  EXPECT_EQ(FailedPairs({pair(0, 1, 1.0), pair(0, 2, 0.6), pair(1, 2, 1.1)}), std::vector<Pair>{});
  // All links of host 0, of three hosts.
  EXPECT_EQ(FailedPairs({pair(0, 1, 0.01), pair(0, 2, 0.01), pair(1, 2, 1.0)}),
            (std::vector<Pair>{{0, 1}, {0, 2}}));
  PairTried broken = pair(0, 1, 0);
  broken.problem = "no answer";
  EXPECT_EQ(FailedPairs({broken}), (std::vector<Pair>{{0, 1}}));
}

TEST(Pairs, APairWhoseSpeedIsNotKnownIsNotComparedAndIsNoMedian) {
  const auto pair = [](uint32_t a, uint32_t b, double gb_s) {
    return PairTried{.pair = {a, b}, .gb_s = gb_s, .problem = ""};
  };
  EXPECT_EQ(FailedPairs({pair(0, 1, 1.0), pair(0, 2, 0), pair(1, 2, 1.1), pair(1, 3, 0.9)}),
            std::vector<Pair>{});
  // Of three known ones the slow one is found, however many are not known.
  EXPECT_EQ(FailedPairs(
                {pair(0, 1, 1.0), pair(0, 2, 0), pair(0, 3, 0), pair(1, 2, 1.1), pair(1, 3, 0.3)}),
            (std::vector<Pair>{{1, 3}}));
}

}  // namespace
}  // namespace paceline::diagnose
