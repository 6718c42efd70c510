#include "paceline/diagnose/scene.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "paceline/base/text.h"

namespace paceline::diagnose {
namespace {

constexpr size_t kLinesMax = 12;
// Share of the time between two looks, in CPU time of all threads.
constexpr int kBusyShare = 2;  // one half
constexpr size_t kRunsMax = 6;
// Torch numbers its groups as they are created, and the world's is the first.
constexpr std::string_view kWorldName = "0";
// python/paceline/_rank/hooks/start.py records the start of the world as a group of this name.
constexpr std::string_view kStartName = "start";
constexpr size_t kGroupNameMax = 12;

std::string BaseName(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string StateText(const RankEvidence& rank) {
  switch (rank.state) {
    case 'T': return "stopped";
    case 't': return "held by a debugger";
    case 'R': return "runs";
    case 'D': return "sleeps in the kernel";
    case 'S': return "sleeps";
    default: return "state unknown";
  }
}

std::string LineOf(const RankFacts& facts, uint32_t world_size) {
  const RankEvidence& rank = facts.evidence;
  std::string line = Concat(RankText(facts), ": ", StateText(rank), WhereText(rank));
  const auto last = std::find_if(rank.collectives.rbegin(), rank.collectives.rend(),
                                 [](const CollectiveSeen& seen) { return !seen.is_complete; });
  if (last != rank.collectives.rend()) {
    Append(&line, "; in ", CollectiveText(*last, world_size), " for ", SecondsText(last->age));
  }
  if (rank.watched > Duration()) {
    Append(&line, "; ", rank.cpu.milliseconds(), " ms of CPU in ", rank.watched.milliseconds(),
           " ms");
  }
  if (!rank.waits_in.empty()) Append(&line, "; ", rank.waits_in);
  if (rank.stopped_child != 0) Append(&line, "; ", StoppedChildText(rank));
  if (!rank.has_ring) line += "; no records";
  if (rank.stack.empty()) {
    Append(&line, "; no stacks", rank.no_stack.empty() ? "" : ": ", rank.no_stack);
  }
  return line;
}

constexpr std::string_view kPoll = "poll of ";
constexpr std::string_view kNameServer = ", a name server";

// What a call waits for. A process asks its name servers in turn, so all of them count as one.
std::string_view ResourceOf(std::string_view call) {
  return call.ends_with(kNameServer) ? kNameServer : call;
}

// "poll of 10.0.0.2:53 and 10.0.0.3:53, name servers"; "" if a call is no such poll.
std::string NameServersText(const std::set<std::string_view>& calls) {
  std::string text(kPoll);
  size_t count = 0;
  for (std::string_view call : calls) {
    if (!TakePrefix(&call, kPoll) || !call.ends_with(kNameServer)) return "";
    const bool is_last = ++count == calls.size();
    Append(&text, count == 1 ? "" : is_last ? " and " : ", ");
    text += call.substr(0, call.size() - kNameServer.size());
  }
  return text + ", name servers";
}

// "rank 3", "ranks 0-3,8".
std::string RanksIn(const std::string& runs, size_t count) {
  return Concat(count == 1 ? "rank " : "ranks ", runs);
}

// "first", "tenth", "11th", "22nd".
std::string OrdinalText(uint32_t number) {
  constexpr std::array<std::string_view, 10> kWords = {"first", "second", "third",   "fourth",
                                                       "fifth", "sixth",  "seventh", "eighth",
                                                       "ninth", "tenth"};
  if (number >= 1 && number <= kWords.size()) return std::string(kWords[number - 1]);
  const bool is_teen = number % 100 >= 11 && number % 100 <= 13;
  const uint32_t last = is_teen ? 0 : number % 10;
  return Concat(number, last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

}  // namespace

std::string SharedWait(const Scene& scene, const std::set<uint32_t>& ranks) {
  std::set<std::string_view> calls;
  for (const uint32_t rank : ranks) {
    const RankFacts* const known = scene.Find(rank);
    if (known == nullptr || known->evidence.waits_in.empty()) return "";
    // Ranks with stopped children wait for these, even if their system calls are alike.
    if (known->evidence.stopped_child != 0) return "";
    const std::string_view call = known->evidence.waits_in;
    if (!calls.empty() && ResourceOf(call) != ResourceOf(*calls.begin())) return "";
    calls.insert(call);
  }
  if (calls.empty()) return "";
  return calls.size() == 1 ? std::string(*calls.begin()) : NameServersText(calls);
}

std::string_view HangName(HangClass hang) {
  switch (hang) {
    case HangClass::kNone: return "none";
    case HangClass::kDebugger: return "debugger";
    case HangClass::kEnding: return "ending";
    case HangClass::kStopped: return "stopped";
    case HangClass::kMismatch: return "mismatched call";
    case HangClass::kBusy: return "busy";
    case HangClass::kBlocked: return "blocked";
    case HangClass::kOrder: return "mismatched order";
    case HangClass::kEverybody: return "everybody";
  }
  return "unknown";
}

const RankFacts* Scene::Find(uint32_t rank) const {
  const auto found = std::lower_bound(
      facts.ranks.begin(), facts.ranks.end(), rank,
      [](const RankFacts& known, uint32_t wanted) { return known.evidence.rank.value() < wanted; });
  const bool is_there = found != facts.ranks.end() && found->evidence.rank.value() == rank;
  return is_there ? &*found : nullptr;
}

Duration Scene::LongestWait(const std::set<uint32_t>& waiters) const {
  Duration longest;
  for (const uint32_t rank : waiters) {
    const auto found = graph.waits_in.find(rank);
    if (found != graph.waits_in.end()) longest = std::max(longest, found->second->age);
  }
  return longest;
}

bool IsBusy(const RankEvidence& rank) {
  if (rank.state == 'R') return true;
  return rank.watched > Duration() && rank.cpu * kBusyShare >= rank.watched;
}

Verdict TooEarly(Duration left) {
  Verdict verdict;
  verdict.look_again = left;
  return verdict;
}

std::set<uint32_t> AsleepInBackward(const Scene& scene, uint32_t absent) {
  std::set<uint32_t> asleep;
  for (const RankFacts& rank : scene.facts.ranks) {
    const RankEvidence& evidence = rank.evidence;
    if (evidence.rank.value() == absent) continue;
    if (!evidence.has_ring || evidence.phase != RankPhase::kBackward || IsBusy(evidence)) return {};
    asleep.insert(evidence.rank.value());
  }
  const bool are_all_known = asleep.size() + 1 == scene.facts.world_size;
  return are_all_known ? asleep : std::set<uint32_t>();
}

Duration ShortestQuiet(const Scene& scene, const std::set<uint32_t>& ranks) {
  Duration shortest = Duration::Infinite();
  for (const uint32_t rank : ranks) {
    shortest = std::min(shortest, scene.Find(rank)->evidence.quiet_for);
  }
  return shortest;
}

std::string AsleepText(const std::set<uint32_t>& asleep, Duration slept) {
  if (asleep.empty()) return "";
  return Concat(" ", Capitalized(RanksText(asleep)), asleep.size() == 1 ? " has" : " have",
                " slept in backward for ", SecondsText(slept), ".");
}

std::vector<Rank> RanksOf(const std::set<uint32_t>& ranks) {
  std::vector<Rank> numbers;
  for (const uint32_t rank : ranks) numbers.push_back(Rank(rank));
  return numbers;
}

std::string RankText(const RankFacts& rank) {
  return Concat("rank ", rank.evidence.rank.value(), " on ", rank.node);
}

std::string RanksText(const std::set<uint32_t>& ranks) {
  std::vector<std::string> runs;
  for (auto it = ranks.begin(); it != ranks.end();) {
    const uint32_t first = *it;
    uint32_t last = first;
    for (++it; it != ranks.end() && *it == last + 1; ++it) last = *it;
    if (last > first + 1) {
      runs.push_back(Concat(first, "–", last));
    } else {
      runs.push_back(Concat(first));
      if (last > first) runs.push_back(Concat(last));
    }
  }
  const size_t count = runs.size();
  if (count > kRunsMax) return Concat(ranks.size(), " ranks");
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) text += i + 1 == count ? " and " : ", ";
    text += runs[i];
  }
  return text;
}

bool IsOfScript(const StackFrame& frame) {
  for (const std::string_view part : {"/site-packages/", "/dist-packages/", "/lib/python", "<"}) {
    if (frame.file.find(part) != std::string::npos) return false;
  }
  return !frame.file.empty();
}

std::string PlaceOf(const RankEvidence& rank) {
  const auto found = std::find_if(rank.stack.begin(), rank.stack.end(), IsOfScript);
  return found == rank.stack.end() ? "" : Concat(BaseName(found->file), ":", found->line);
}

std::string WhereText(const RankEvidence& rank) {
  std::string text;
  if (const std::string place = PlaceOf(rank); !place.empty()) text = " in " + place;
  const bool is_known = rank.has_ring && rank.phase != RankPhase::kUnknown;
  return is_known ? Concat(text, ", ", PhaseName(rank.phase)) : text;
}

std::string CollectiveText(const CollectiveSeen& seen, uint32_t world_size) {
  const std::string group = GroupText(seen.group, world_size);
  std::string text = Concat(seen.operation, " ", seen.sequence, " of ", group);
  if (seen.site.empty()) return text;
  return group.ends_with(')') ? Concat(text, " at ", seen.site)
                              : Concat(text, " (", seen.site, ")");
}

std::string GroupText(const std::string& group, uint32_t world_size) {
  const size_t space = group.rfind(' ');
  const std::string name = group.substr(0, space);
  const std::vector<uint32_t> members = MembersOf(group);
  const bool is_world = name == kWorldName || name == kStartName;
  if (is_world && members.size() == world_size && world_size > 0) return "the world";
  std::vector<std::string> facts;
  if (!members.empty()) facts.push_back(RanksIn(group.substr(space + 1), members.size()));
  const auto number = ParseWhole<uint32_t>(name);
  if (number.has_value() && *number > 0) facts.push_back("created " + OrdinalText(*number));
  // Torch names a group that only its members create by a hash.
  std::string text = Concat("group ", name.substr(0, kGroupNameMax));
  for (const std::string& fact : facts) {
    Append(&text, &fact == &facts.front() ? " (" : ", ", fact);
  }
  return facts.empty() ? text : text + ")";
}

std::string StoppedChildText(const RankEvidence& rank) {
  if (rank.stopped_child == 0) return "";
  const bool loads = rank.has_ring && rank.phase == RankPhase::kData;
  return Concat(loads ? "its loader's worker, process " : "its child process ", rank.stopped_child,
                loads ? ", is stopped" : " is stopped", " (kill -CONT ", rank.stopped_child,
                " continues it)");
}

std::string Capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

std::string SecondsText(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", duration.ToSecondsF());
  return text;
}

std::string WaitText(const Scene& scene, const std::set<uint32_t>& waiters, size_t awaited) {
  if (waiters.empty()) return "";
  const CollectiveSeen* where = nullptr;
  for (const uint32_t rank : waiters) {
    const auto found = scene.graph.waits_in.find(rank);
    const bool is_older = found != scene.graph.waits_in.end() &&
                          (where == nullptr || found->second->age > where->age);
    if (is_older) where = found->second;
  }
  std::string text =
      Concat(Capitalized(RanksText(waiters)), " waited ", SecondsText(scene.LongestWait(waiters)),
             " for ", awaited == 1 ? "it" : "them");
  if (where != nullptr) {
    Append(&text, " in ", CollectiveText(*where, scene.facts.world_size));
  }
  return text + ".";
}

void AddLines(const Scene& scene, Verdict* verdict) {
  std::vector<const RankFacts*> told;
  const auto is_culprit = [verdict](const RankFacts& rank) {
    return std::find(verdict->culprits.begin(), verdict->culprits.end(), rank.evidence.rank) !=
           verdict->culprits.end();
  };
  for (const RankFacts& rank : scene.facts.ranks) told.push_back(&rank);
  std::stable_partition(told.begin(), told.end(),
                        [&](const RankFacts* rank) { return is_culprit(*rank); });
  for (const RankFacts* rank : told) {
    if (verdict->lines.size() == kLinesMax) {
      verdict->lines.push_back(Concat(told.size() - kLinesMax, " more ranks"));
      return;
    }
    verdict->lines.push_back(LineOf(*rank, scene.facts.world_size));
  }
}

}  // namespace paceline::diagnose
