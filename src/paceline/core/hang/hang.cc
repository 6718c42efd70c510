#include "paceline/core/hang/hang.h"

#include <algorithm>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/core/world/drill.h"
#include "paceline/core/world/ranks.h"
#include "paceline/diagnose/judge.h"

namespace paceline::core {

namespace {

using diagnose::HangAct;
using diagnose::Verdict;

void Ask(Turn& turn) {
  HangWatch& hang = turn.watch().hang;
  const World& world = *turn.state().world;
  MARK("evidence asked");
  ++hang.round;
  hang.is_asked = true;
  hang.asked_at = turn.now();
  hang.answers.clear();
  for (const Seat& seat : world.seats) {
    turn.Do(CollectEvidence{seat.node, world.generation, hang.round});
  }
}

bool AllHaveAnswered(Turn& turn) {
  const HangWatch& hang = turn.watch().hang;
  const auto& seats = turn.state().world->seats;
  return std::all_of(seats.begin(), seats.end(), [&](const Seat& seat) {
    return hang.answers.contains(seat.node) || !turn.Link(seat.node).connection;
  });
}

diagnose::Facts FactsOf(Turn& turn) {
  const JobState& state = turn.state();
  diagnose::Facts facts;
  facts.world_size = state.world->world_size();
  facts.act_after = state.spec.hang_act_after;
  for (auto& [node, evidence] : turn.watch().hang.answers) {
    const Seat& seat = state.SeatOf(*state.Find(node));
    for (const RankEvidence& rank : evidence.ranks) {
      const uint32_t number = rank.rank.value();
      const bool is_its_own =
          number >= seat.first_rank && number - seat.first_rank < seat.rank_count;
      if (is_its_own) facts.ranks.push_back({state.NameOf(node), rank});
    }
  }
  std::sort(facts.ranks.begin(), facts.ranks.end(),
            [](const auto& a, const auto& b) { return a.evidence.rank < b.evidence.rank; });
  const auto is_same = [](const auto& a, const auto& b) {
    return a.evidence.rank == b.evidence.rank;
  };
  facts.ranks.erase(std::unique(facts.ranks.begin(), facts.ranks.end(), is_same),
                    facts.ranks.end());
  return facts;
}

// A hang is recorded once, however often it is examined. A rank that evaluates sleeps at one look
// and computes at another.
std::string KeyOf(const Verdict& verdict) {
  const bool is_absent =
      verdict.hang == diagnose::HangClass::kBusy || verdict.hang == diagnose::HangClass::kBlocked;
  std::string key(is_absent ? "absent" : diagnose::HangName(verdict.hang));
  for (const Rank rank : verdict.culprits) Append(&key, " ", rank.value());
  return key;
}

// The time since any rank of the world did something.
Duration QuietFor(const diagnose::Facts& facts) {
  Duration quiet = facts.ranks.empty() ? Duration() : Duration::Infinite();
  for (const auto& rank : facts.ranks) quiet = std::min(quiet, rank.evidence.quiet_for);
  return quiet;
}

// The record of the drill that struck one of these ranks; 0: none did.
RecordSeq DrillOf(const JobState& state, const std::vector<Rank>& culprits) {
  if (!state.drill.has_value()) return RecordSeq();
  const bool is_struck =
      std::find(culprits.begin(), culprits.end(), state.drill->rank) != culprits.end();
  return is_struck ? DrillBehind(state, state.drill->node, state.drill->rank) : RecordSeq();
}

void RecordVerdict(Turn& turn, const Verdict& verdict, bool acts, Duration quiet_for) {
  const bool may_act = !acts && !turn.state().spec.only_tells_hangs;
  turn.Emit(HangJudged{.generation = turn.state().world->generation,
                       .hang = std::string(diagnose::HangName(verdict.hang)),
                       .acts = acts,
                       .sentence = verdict.sentence,
                       .culprits = verdict.culprits,
                       .lines = verdict.lines,
                       .quiet_for = quiet_for,
                       .later = may_act ? verdict.later : "",
                       .end_follows = true},
            {turn.state().world_seq, DrillOf(turn.state(), verdict.culprits)});
  if (!acts) {
    turn.watch().hang.told_seq = turn.state().last_seq;
    turn.watch().hang.told_ranks = verdict.culprits;
    turn.watch().hang.told_sentence = verdict.sentence;
    return;
  }
  MARK("hung rank fails");
  ExitCause cause;
  cause.kind = ExitCause::Kind::kHung;
  cause.headline = verdict.headline;
  cause.is_final = verdict.is_final;
  // SIGSTOP comes from outside, so two stopped ranks are no repeated failure of the script.
  if (verdict.hang != diagnose::HangClass::kStopped) cause.fingerprint = verdict.fingerprint;
  FailHungRank(turn, verdict.culprits.front(), cause, turn.state().last_seq);
}

// Records the end of a hang that was named, perhaps by an earlier master. False while a rank
// is quiet or has not been heard by this master.
bool NoteEnd(Turn& turn) {
  const JobState& state = turn.state();
  if (!state.hang.pending || !state.world) return false;
  if (turn.watch().running_seats + state.finished_count < state.world->seats.size()) return false;
  MARK("hang ended by itself");
  turn.Emit(
      HangEnded{.generation = state.world->generation, .lasted = turn.now() - state.hang.since},
      {state.hang.seq});
  return true;
}

bool JudgeAnswers(Turn& turn) {
  HangWatch& hang = turn.watch().hang;
  const diagnose::Facts facts = FactsOf(turn);
  const Verdict verdict = diagnose::Judge(facts);
  hang.is_asked = false;
  hang.answers.clear();
  hang.look_at = turn.now() + std::max(verdict.look_again, kLookAgainMin);
  if (verdict.act == HangAct::kNone) return false;
  const bool acts = verdict.act == HangAct::kRestart && !verdict.culprits.empty() &&
                    !turn.state().spec.only_tells_hangs;
  if (!acts && !hang.told.insert(KeyOf(verdict)).second) return false;
  MARK("hang told");
  RecordVerdict(turn, verdict, acts, QuietFor(facts));
  return true;
}

}  // namespace

void OnEvidence(Turn& turn, const EvidenceCollected& event) {
  const auto found = turn.links().find(event.node);
  if (found == turn.links().end() || found->second.connection != event.connection) return;
  HangWatch& hang = turn.watch().hang;
  const JobState& state = turn.state();
  const bool is_awaited = hang.is_asked && event.evidence.round == hang.round &&
                          state.IsSeated(event.node) &&
                          event.evidence.generation == state.world->generation;
  if (!is_awaited) {
    MARK("stale evidence");
    return;
  }
  hang.answers[event.node] = event.evidence;
}

bool NoteHang(Turn& turn) {
  Watch& watch = turn.watch();
  HangWatch& hang = watch.hang;
  if (watch.quiet_ranks == 0) {
    hang.is_asked = false;
    hang.look_at = Instant::Max();
    hang.told.clear();
    hang.told_seq = RecordSeq();
    hang.told_ranks.clear();
    hang.told_sentence.clear();
    return NoteEnd(turn);
  }
  if (!hang.is_asked) {
    if (hang.look_at.is_max() || turn.now() >= hang.look_at) Ask(turn);
    return false;
  }
  if (!AllHaveAnswered(turn) && turn.now() < hang.asked_at + kEvidenceWait) return false;
  if (turn.now() > hang.asked_at + kEvidenceStale) {
    MARK("stale answers");
    Ask(turn);
    return false;
  }
  return JudgeAnswers(turn);
}

Instant HangDeadline(const Watch& watch) {
  if (watch.quiet_ranks == 0) return Instant::Max();
  return watch.hang.is_asked ? watch.hang.asked_at + kEvidenceWait : watch.hang.look_at;
}

}  // namespace paceline::core
