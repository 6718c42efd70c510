#pragma once

// The facts about a world that stands still, and the verdict on it.

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

// Ranks whose agent did not answer are missing. A missing rank is not blamed for that alone.
struct Facts {
  uint32_t world_size = 0;
  Duration act_after;            // restart an absent rank after this; 0: by what it does
  std::vector<RankFacts> ranks;  // by rank, ascending
};

enum class HangClass {
  kNone,       // no known fault
  kDebugger,   // a debugger holds a rank
  kEnding,     // its script has raised an exception, and its process lives on
  kStopped,    // a signal stopped it
  kMismatch,   // ranks of a group made different calls
  kBusy,       // a rank computes and does not reach the collective in which others wait
  kBlocked,    // a rank sleeps and does not reach that collective
  kOrder,      // ranks wait for each other in a circle
  kEverybody,  // all entered and none leaves, or all do the same: a link, storage, or no fault
};
std::string_view HangName(HangClass hang);  // "stopped", …

enum class HangAct {
  kNone,     // too early to say anything
  kTell,     // report it, restart nothing
  kRestart,  // restart the culprits
};

struct Verdict {
  HangClass hang = HangClass::kNone;
  HangAct act = HangAct::kNone;
  std::vector<Rank> culprits;  // each named by its own facts; may be empty
  std::string sentence;        // "Rank 2 on node0 was stopped (SIGSTOP) in train.py:41, forward."
  std::vector<std::string> lines;  // the evidence, a line each
  std::string headline;     // of the culprit's failure: "was stopped (SIGSTOP) in train.py:41"
  std::string fingerprint;  // equal for the same hang
  bool is_final = false;    // no restart can mend it
  // If it is only told now: what is done, and when. "": nothing, however long it lasts.
  std::string later;
  // After this time the same facts may give another verdict. Infinite: never.
  Duration look_again = Duration::Infinite();
};

}  // namespace paceline::diagnose
