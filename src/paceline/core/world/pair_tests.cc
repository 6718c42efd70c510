#include "paceline/core/world/pair_tests.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/mark.h"
#include "paceline/base/number_text.h"
#include "paceline/base/text.h"
#include "paceline/core/world/membership.h"

namespace paceline::core {

namespace {

using diagnose::Pair;
using diagnose::PairTried;
using Rounds = std::vector<std::vector<Pair>>;

// After this time no pair is tested any more, and a host that no test reached is not checked.
constexpr Duration kPairsMax = Duration::Seconds(30);
// For the answers of one round. Agents give up before.
constexpr Duration kPairRoundMax = Duration::Seconds(10);
// Failed pairs are tested again at most so often.
constexpr uint32_t kRepeatsMax = 2;
// The fastest chunk counts, so several are fetched. A host that may be training sends only one.
constexpr uint32_t kPairChunks = 6;
constexpr uint32_t kPairChunksKnown = 1;
constexpr size_t kPeersNamedMax = 4;

bool IsHere(Turn& turn, const PairHost& host) {
  const NodeState* node = turn.state().Find(host.node);
  return node != nullptr && node->IsMember() && turn.Link(host.node).connection == host.connection;
}

bool IsHere(Turn& turn, const Pair& pair) {
  const auto& hosts = turn.watch().pairs.hosts;
  return IsHere(turn, hosts[pair.a]) && IsHere(turn, hosts[pair.b]);
}

bool HasKnown(const PairWatch& pairs, const Pair& pair) {
  return pairs.hosts[pair.a].is_known || pairs.hosts[pair.b].is_known;
}

const NodeState& NodeOf(Turn& turn, uint32_t host) {
  return *turn.state().Find(turn.watch().pairs.hosts[host].node);
}

// Nodes whose links can be tested no more, or need not be.
void DropAway(Turn& turn) {
  std::erase_if(turn.watch().pairs.untested, [&turn](NodeId id) {
    const NodeState& node = *turn.state().Find(id);
    return node.status != NodeState::Status::kSpare || !turn.Link(id).connection;
  });
}

// The tested hosts, the ones to be tested first.
std::vector<PairHost> HostsToTest(Turn& turn) {
  std::vector<PairHost> hosts;
  const auto add = [&turn, &hosts](NodeId id, bool is_known) {
    hosts.push_back({id, *turn.Link(id).connection, is_known});
  };
  const std::set<NodeId>& untested = turn.watch().pairs.untested;
  for (const NodeId id : untested) add(id, /*is_known=*/false);
  // Two good hosts tell a bad host from a bad link. An even count has all pairs.
  const size_t most = 2 * hosts.size() + 2;
  for (const auto& [id, node] : turn.state().nodes) {
    if (hosts.size() >= most) break;
    const NodeLink& link = turn.Link(id);
    const bool is_good = node.status == NodeState::Status::kSeated || link.has_links_tested;
    if (!node.IsMember() || !link.connection || link.bulk.empty() || !is_good) continue;
    if (!untested.contains(id)) add(id, /*is_known=*/true);
  }
  return hosts;
}

// Without pairs of hosts that were tested before. The next one is the last.
void SetRounds(Rounds rounds, PairWatch* pairs) {
  for (auto& round : rounds) {
    std::erase_if(round, [pairs](const Pair& pair) {
      return pairs->hosts[pair.a].is_known && pairs->hosts[pair.b].is_known;
    });
  }
  std::reverse(rounds.begin(), rounds.end());
  pairs->rounds = std::move(rounds);
}

void Order(Turn& turn, const Pair& pair, bool is_second) {
  const PairWatch& pairs = turn.watch().pairs;
  const uint32_t from = is_second ? pair.b : pair.a;
  const uint32_t to = is_second ? pair.a : pair.b;
  turn.Do(TestLink{pairs.hosts[from].node,
                   {.round = pairs.round,
                    .peer = NodeOf(turn, to).name,
                    .address = turn.Link(pairs.hosts[to].node).bulk,
                    .chunks = HasKnown(pairs, pair) ? kPairChunksKnown : kPairChunks}});
}

// Returns false if no round is left.
bool BeginRound(Turn& turn) {
  PairWatch& pairs = turn.watch().pairs;
  while (!pairs.rounds.empty()) {
    std::vector<Pair> round = std::move(pairs.rounds.back());
    pairs.rounds.pop_back();
    std::erase_if(round, [&turn](const Pair& pair) { return !IsHere(turn, pair); });
    if (round.empty()) continue;
    pairs.round = std::max(pairs.round, turn.state().master_incarnation << 20) + 1;
    pairs.due = turn.now() + kPairRoundMax;
    pairs.running.clear();
    pairs.open = static_cast<int64_t>(round.size());
    for (const Pair& pair : round) {
      pairs.running.push_back({.pair = pair, .told = {}});
      Order(turn, pair, /*is_second=*/false);
      Order(turn, pair, /*is_second=*/true);
    }
    return true;
  }
  return false;
}

// The checks of the agent itself, which may have been asked for once more.
bool OwnChecksAreOver(Turn& turn, NodeId id) {
  const NodeCheck& check = turn.Link(id).check;
  return check.is_over() && check.round >= turn.state().Find(id)->check_round;
}

void EndTests(Turn& turn) {
  PairWatch& pairs = turn.watch().pairs;
  for (const PairHost& host : pairs.hosts) {
    if (host.is_known || !IsHere(turn, host)) continue;
    turn.Link(host.node).has_links_tested = true;
    pairs.untested.erase(host.node);
    if (OwnChecksAreOver(turn, host.node)) turn.watch().checking.erase(host.node);
  }
  pairs.hosts.clear();
  pairs.rounds.clear();
  pairs.running.clear();
  pairs.tests.clear();
  turn.watch().dirty = true;
}

// Begins the test. If there is only one host, its links count as tested.
void BeginPairs(Turn& turn) {
  PairWatch& pairs = turn.watch().pairs;
  pairs.hosts = HostsToTest(turn);
  if (pairs.hosts.size() < 2) return EndTests(turn);
  MARK("links between hosts are tested");
  pairs.began_at = turn.now();
  pairs.repeats = 0;
  pairs.open = 0;
  pairs.has_loss = false;
  SetRounds(diagnose::PairRounds(static_cast<uint32_t>(pairs.hosts.size())), &pairs);
  BeginRound(turn);
}

// The speed of nodes of one host is that of its memory and not of a link.
bool IsOneHost(const NodeState& a, const NodeState& b) { return a.address == b.address; }

PairTried TriedOf(Turn& turn, const RunningPair& running) {
  const Pair& pair = running.pair;
  PairTried tried{.pair = pair, .gb_s = 0, .problem = ""};
  double slower = 0;
  bool has_both = true;
  for (size_t side = 0; side < 2; ++side) {
    const auto& told = running.told[side];
    has_both = has_both && told.has_value();
    if (!told.has_value()) continue;
    slower = slower == 0 ? told->gb_s : std::min(slower, told->gb_s);
    if (told->problem.empty() || !tried.problem.empty()) continue;
    tried.problem = Concat(NodeOf(turn, side == 0 ? pair.a : pair.b).name, " fetches nothing from ",
                           NodeOf(turn, side == 0 ? pair.b : pair.a).name, ": ", told->problem);
  }
  const bool is_measured = has_both && tried.problem.empty() &&
                           !HasKnown(turn.watch().pairs, pair) &&
                           !IsOneHost(NodeOf(turn, pair.a), NodeOf(turn, pair.b));
  if (is_measured) tried.gb_s = slower;
  return tried;
}

bool IsComplete(const RunningPair& running) {
  return running.told[0].has_value() && running.told[1].has_value();
}

// A pair of which one direction failed has failed. What is not known proves nothing.
bool HasResult(const RunningPair& running) {
  const auto failed = [](const auto& told) { return told.has_value() && !told->problem.empty(); };
  return IsComplete(running) || failed(running.told[0]) || failed(running.told[1]);
}

// Counts the tests since the last call. Returns the pairs that failed once, and so must be tested
// once more.
std::vector<Pair> CountTests(PairWatch* pairs) {
  std::vector<PairTried> tried;
  for (const auto& [pair, tests] : pairs->tests) tried.push_back(tests.last);
  const std::vector<Pair> now = diagnose::FailedPairs(tried);
  const std::set<Pair> failed(now.begin(), now.end());
  std::vector<Pair> wanted;
  for (auto& [pair, tests] : pairs->tests) {
    const bool has_failed = failed.contains(pair);
    if (!tests.is_counted) {
      tests.is_counted = true;
      tests.failures += has_failed ? 1 : 0;
      tests.has_passed = tests.has_passed || !has_failed;
    }
    if (!tests.has_passed && tests.failures == 1) wanted.push_back(pair);
  }
  return wanted;
}

bool IsBad(const PairTests& tests) { return !tests.has_passed && tests.failures >= 2; }

std::vector<Pair> TestedPairs(const PairWatch& pairs) {
  std::vector<Pair> tested;
  for (const auto& [pair, tests] : pairs.tests) {
    if (tests.has_passed || IsBad(tests)) tested.push_back(pair);
  }
  return tested;
}

// Plans tests of failed pairs. Returns false if none is left to do.
bool Repeat(Turn& turn) {
  PairWatch& pairs = turn.watch().pairs;
  const std::vector<Pair> wanted = CountTests(&pairs);
  if (wanted.empty() || pairs.repeats >= kRepeatsMax) return false;
  ++pairs.repeats;
  MARK("a pair of hosts is tested once more");
  std::vector<Pair> known = TestedPairs(pairs);
  known.insert(known.end(), wanted.begin(), wanted.end());
  SetRounds(diagnose::SecondRounds(static_cast<uint32_t>(pairs.hosts.size()), known, wanted),
            &pairs);
  return BeginRound(turn);
}

std::string ProblemOf(const PairTests& tests) {
  if (!tests.last.problem.empty()) return tests.last.problem;
  return Concat(FixedText(tests.last.gb_s, 2),
                " GB/s, less than half of the median of the other pairs");
}

PairsJudged::Link LinkOf(Turn& turn, const PairTests& tests) {
  return {NodeOf(turn, tests.last.pair.a).name, NodeOf(turn, tests.last.pair.b).name,
          ProblemOf(tests)};
}

// "links: its tests with n1, n2 failed: …"
std::string WhyBad(Turn& turn, uint32_t host) {
  std::string peers;
  std::string problem;
  size_t named = 0;
  for (const auto& [pair, tests] : turn.watch().pairs.tests) {
    if (!IsBad(tests) || (pair.a != host && pair.b != host)) continue;
    if (problem.empty()) problem = ProblemOf(tests);
    if (++named > kPeersNamedMax) continue;
    Append(&peers, peers.empty() ? "" : ", ", NodeOf(turn, pair.a == host ? pair.b : pair.a).name);
  }
  return Concat("links: its tests with ", peers, named > kPeersNamedMax ? ", …" : "",
                " failed: ", problem);
}

diagnose::PairsVerdict Judge(const PairWatch& pairs) {
  std::vector<Pair> tested = TestedPairs(pairs);
  std::vector<Pair> failed;
  for (const auto& [pair, tests] : pairs.tests) {
    if (IsBad(tests)) failed.push_back(pair);
  }
  const auto count = static_cast<uint32_t>(pairs.hosts.size());
  for (uint32_t a = 0; a < count; ++a) {
    for (uint32_t b = a + 1; b < count; ++b) {
      if (pairs.hosts[a].is_known && pairs.hosts[b].is_known) tested.push_back({a, b});
    }
  }
  return diagnose::JudgePairs(count, tested, failed);
}

PairsJudged JudgedOf(Turn& turn, const std::vector<uint32_t>& bad,
                     const diagnose::PairsVerdict& verdict) {
  const PairWatch& pairs = turn.watch().pairs;
  PairsJudged judged{.nodes = static_cast<uint32_t>(pairs.hosts.size()),
                     .pairs = 0,
                     .took = turn.now() - pairs.began_at};
  const auto has = [](const auto& list, const auto& one) {
    return std::find(list.begin(), list.end(), one) != list.end();
  };
  std::vector<bool> is_reached(pairs.hosts.size(), false);
  for (const auto& [pair, tests] : pairs.tests) {
    if (!tests.has_passed && !IsBad(tests)) continue;
    ++judged.pairs;
    is_reached[pair.a] = is_reached[pair.b] = true;
    const double speed = tests.has_passed ? tests.last.gb_s : 0;
    if (speed > 0 && (judged.slowest == 0 || speed < judged.slowest)) judged.slowest = speed;
    if (!IsBad(tests) || has(bad, pair.a) || has(bad, pair.b)) continue;
    const bool is_link = has(verdict.bad_links, pair);
    (is_link ? judged.bad_links : judged.doubtful).push_back(LinkOf(turn, tests));
  }
  for (const uint32_t host : bad) judged.bad.push_back(NodeOf(turn, host).name);
  for (uint32_t host = 0; host < pairs.hosts.size(); ++host) {
    const bool is_missed =
        !is_reached[host] && !pairs.hosts[host].is_known && IsHere(turn, pairs.hosts[host]);
    if (is_missed) judged.missed.push_back(NodeOf(turn, host).name);
  }
  return judged;
}

// Takes out a host whose links are bad.
void TakeOut(Turn& turn, NodeId id, const std::string& why, RecordSeq cause) {
  MARK("a host without good links is taken out");
  const NodeState& node = *turn.state().Find(id);
  turn.Emit(NodeChecked{.node = id,
                        .name = node.name,
                        .ok = false,
                        .reason = why,
                        .numbers = turn.Link(id).check.numbers,
                        .round = turn.Link(id).check.round},
            {node.cause, cause});
  EvictNode(turn, id, "failed its checks: " + why, {turn.state().last_seq});
}

// Returns true if it wrote a record.
bool Finish(Turn& turn) {
  PairWatch& pairs = turn.watch().pairs;
  const diagnose::PairsVerdict verdict = Judge(pairs);
  std::vector<uint32_t> bad;
  std::vector<std::pair<NodeId, std::string>> reasons;
  for (const uint32_t host : verdict.bad) {
    // One that was tested before may be training.
    if (pairs.hosts[host].is_known || !IsHere(turn, pairs.hosts[host])) continue;
    bad.push_back(host);
    reasons.emplace_back(pairs.hosts[host].node, WhyBad(turn, host));
  }
  PairsJudged judged = JudgedOf(turn, bad, verdict);
  const RecordSeq cause = NodeOf(turn, 0).cause;
  EndTests(turn);
  if (judged.pairs == 0 && judged.missed.empty()) return false;
  if (!judged.bad_links.empty()) MARK("a link between good hosts is bad");
  if (!judged.doubtful.empty()) MARK("a link or a host is bad");
  if (!judged.missed.empty()) MARK("a host's links are not checked in time");
  turn.Emit(std::move(judged), {cause});
  const RecordSeq verdict_seq = turn.state().last_seq;
  for (const auto& [id, why] : reasons) TakeOut(turn, id, why, verdict_seq);
  return true;
}

// Takes the results of the running round when it is over. Returns false while it is not.
bool EndRound(Turn& turn, bool is_late) {
  PairWatch& pairs = turn.watch().pairs;
  const bool is_due = turn.now() >= pairs.due || is_late;
  if (std::exchange(pairs.has_loss, false)) {
    std::erase_if(pairs.running,
                  [&turn](const RunningPair& running) { return !IsHere(turn, running.pair); });
    pairs.open = std::count_if(pairs.running.begin(), pairs.running.end(),
                               [](const RunningPair& running) { return !IsComplete(running); });
  }
  if (pairs.open > 0 && !is_due) return false;
  for (const RunningPair& running : pairs.running) {
    if (!HasResult(running)) continue;
    PairTests& tests = pairs.tests[running.pair];
    tests.last = TriedOf(turn, running);
    tests.is_counted = false;
  }
  pairs.running.clear();
  return true;
}

// Returns true if it wrote a record.
bool GoOn(Turn& turn) {
  PairWatch& pairs = turn.watch().pairs;
  const bool is_late = turn.now() >= pairs.began_at + kPairsMax;
  if (!EndRound(turn, is_late)) return false;
  if (!is_late && (BeginRound(turn) || Repeat(turn))) return false;
  if (is_late) CountTests(&pairs);
  return Finish(turn);
}

}  // namespace

void AwaitPairs(Turn& turn, NodeId id) {
  const NodeLink& link = turn.Link(id);
  const NodeState& node = *turn.state().Find(id);
  const bool is_due = !link.bulk.empty() && !link.has_links_tested &&
                      link.check.state == NodeCheck::State::kPassed &&
                      node.status == NodeState::Status::kSpare && !turn.state().spec.tasks.is_on();
  if (!is_due) return;
  turn.watch().pairs.untested.insert(id);
  if (turn.state().AnyWorldYet()) turn.watch().checking.insert(id);
}

void OnLinkTestEnded(Turn& turn, const LinkTestEnded& event) {
  PairWatch& pairs = turn.watch().pairs;
  if (!pairs.is_on() || event.test.round != pairs.round) {
    MARK("stale test of a link");
    return;
  }
  for (RunningPair& running : pairs.running) {
    for (size_t side = 0; side < 2; ++side) {
      const PairHost& host = pairs.hosts[side == 0 ? running.pair.a : running.pair.b];
      const uint32_t peer = side == 0 ? running.pair.b : running.pair.a;
      const bool is_it = host.node == event.node && host.connection == event.connection &&
                         NodeOf(turn, peer).name == event.test.peer;
      if (!is_it) continue;
      const bool was_open = !IsComplete(running);
      running.told[side] = event.test;
      if (was_open && IsComplete(running)) --pairs.open;
    }
  }
}

bool NotePairs(Turn& turn) {
  PairWatch& pairs = turn.watch().pairs;
  if (pairs.is_on()) return GoOn(turn);
  if (pairs.untested.empty() || !turn.state().AnyWorldYet()) return false;
  DropAway(turn);
  turn.watch().checking.insert(pairs.untested.begin(), pairs.untested.end());
  if (!pairs.untested.empty()) BeginPairs(turn);
  return false;
}

bool PairsAreOpen(Turn& turn) {
  PairWatch& pairs = turn.watch().pairs;
  if (pairs.is_on()) return true;
  DropAway(turn);
  if (!pairs.untested.empty()) BeginPairs(turn);
  return pairs.is_on();
}

Instant PairsDeadline(const Watch& watch) {
  const PairWatch& pairs = watch.pairs;
  if (!pairs.is_on()) return Instant::Max();
  return std::min(pairs.due, pairs.began_at + kPairsMax);
}

void GivePairsTime(Duration time, PairWatch* pairs) {
  if (!pairs->is_on()) return;
  pairs->began_at += time;
  pairs->due += time;
}

}  // namespace paceline::core
