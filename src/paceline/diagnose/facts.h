#pragma once

// What is known of a world that stands still, and what is said of it.

#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/evidence.h"
#include "paceline/model/ids.h"

namespace paceline::diagnose {

struct RankFacts {
  std::string node;
  RankEvidence evidence;
};

// Ranks whose agent did not answer are missing; nobody blames them for that.
struct Facts {
  uint32_t world_size = 0;
  Duration act_after;            // an absent rank is acted on after so long; 0: by what it does
  std::vector<RankFacts> ranks;  // by rank, ascending
};

enum class HangClass {
  kNone,       // nothing is known to be wrong
  kDebugger,   // somebody looks at it
  kStopped,    // a signal stopped it
  kMismatch,   // ranks of a group made different calls
  kBusy,       // it computes and does not come to where the others wait
  kBlocked,    // it sleeps and does not come
  kOrder,      // ranks wait for each other in a circle
  kEverybody,  // all entered and none leaves, or all do the same: a link, storage, or nothing
};
std::string_view HangName(HangClass hang);  // "stopped", …

enum class HangAct {
  kNone,     // too early to say anything
  kTell,     // say it, and touch nothing
  kRestart,  // the culprits fail
};

struct Verdict {
  HangClass hang = HangClass::kNone;
  HangAct act = HangAct::kNone;
  std::vector<Rank> culprits;  // each by a fact of its own; may be empty
  std::string sentence;        // "Rank 2 on node0 was stopped (SIGSTOP) in train.py:41, forward."
  std::vector<std::string> lines;  // the evidence, a line each
  std::string headline;     // of the culprit's failure: "was stopped (SIGSTOP) in train.py:41"
  std::string fingerprint;  // equal for the same hang
  // When the same facts, grown older, may be judged otherwise. Infinite: never.
  Duration look_again = Duration::Infinite();
};

}  // namespace paceline::diagnose
