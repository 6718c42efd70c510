#pragma once

// Which hosts and links are bad, by tests of pairs of hosts. A test fails if one of its two hosts
// or the link between them is bad. Pure.

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::diagnose {

// Two hosts, by their numbers from 0 on; `a` is the lower one.
struct Pair {
  uint32_t a = 0;
  uint32_t b = 0;
  bool operator==(const Pair&) const = default;
  auto operator<=>(const Pair&) const = default;
};

// With more hosts, each host is tested with so many others and not with all.
inline constexpr uint32_t kPairRoundsMax = 7;

// Rounds of a round-robin tournament: in a round each host is in one pair at most, so the tests of
// a round do not disturb each other. There are count - 1 rounds at most, and kPairRoundsMax. With
// an even count of up to eight hosts, these are all pairs.
std::vector<std::vector<Pair>> PairRounds(uint32_t count);

struct PairTried {
  Pair pair;
  double gb_s = 0;      // 10^9 bytes a second, of the slower direction; 0: not known or compared
  std::string problem;  // "": the bytes came in both directions
  bool operator==(const PairTried&) const = default;
};

// Pairs with a problem, and pairs below half of the median of the others. Of fewer than three pairs
// none is too slow, because no one could say which is the odd one.
std::vector<Pair> FailedPairs(const std::vector<PairTried>& tried);

// Rounds with the failed pairs, to be tested once more. With up to eight hosts, also the pairs that
// were not tested yet of hosts that passed no test: with an odd count, the first rounds lack some.
std::vector<std::vector<Pair>> SecondRounds(uint32_t count, const std::vector<Pair>& tested,
                                            const std::vector<Pair>& failed);

struct PairsVerdict {
  std::vector<uint32_t> bad;     // hosts
  std::vector<Pair> bad_links;   // between good hosts
  std::vector<uint32_t> one_of;  // hosts that passed no test, but their link may be the bad one
  bool operator==(const PairsVerdict&) const = default;
};

// `tested` are all pairs that were tested, and `failed` those of them that failed twice. A host
// that passed a test is good. A host is bad if it failed with two good hosts or more. So with up to
// eight hosts, of which two or more are good, and good links, `bad` has exactly the bad hosts.
PairsVerdict JudgePairs(uint32_t count, const std::vector<Pair>& tested,
                        const std::vector<Pair>& failed);

}  // namespace paceline::diagnose
