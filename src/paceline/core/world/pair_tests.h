#pragma once

// Tests of the links between hosts (`run --node-check`): rounds of pairs, in which each host
// fetches a few bytes from the other one. diagnose/pairs.h has the rounds and the verdict.
//
// Hosts without ranks are tested before the first world with each other, and later with a few hosts
// that were tested before. All that is known of a test under way is volatile: the next master tests
// hosts without ranks again. The verdict is a record, PairsJudged. A bad host is taken out, as one
// that failed its checks. A bad link is only told.
//
//   TakeCheck → untested → BeginPairs → round, round, … → failed pairs once more → PairsJudged

#include "paceline/core/event.h"
#include "paceline/core/turn.h"

namespace paceline::core {

// Call it when the other checks of a node have passed: the links of a node without ranks are tested
// if its agent named its bulk channel.
void AwaitPairs(Turn& turn, NodeId id);

void OnLinkTestEnded(Turn& turn, const LinkTestEnded& event);

// Goes on with a test under way. When there was a world, also begins one, and nodes whose links are
// not tested are no candidates. Returns true if it wrote a record.
bool NotePairs(Turn& turn);

// Begins a test, if there are nodes to be tested. Returns true while the first world has to wait
// for one.
bool PairsAreOpen(Turn& turn);

// When NotePairs is due.
Instant PairsDeadline(const Watch& watch);

// Does not count that time for the test under way.
void GivePairsTime(Duration time, PairWatch* pairs);

}  // namespace paceline::core
