#pragma once

// Evidence that an agent collects about its ranks if their world stands still.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/flight_ring.h"
#include "paceline/model/ids.h"

namespace paceline {

// One collective in a rank's flight ring.
struct CollectiveSeen {
  std::string group;      // its name and members: "0 0-3"
  uint64_t sequence = 0;  // in that group, from 1
  std::string operation;  // "all_reduce"
  std::string dtype;
  uint64_t bytes = 0;
  std::string site;  // "train.py:44", or "backward"
  Duration age;      // since it began
  bool is_complete = false;
  bool operator==(const CollectiveSeen&) const = default;
};

struct StackFrame {
  std::string file;
  uint32_t line = 0;
  std::string function;
  bool operator==(const StackFrame&) const = default;
};

struct RankEvidence {
  Rank rank;
  int32_t pid = 0;
  // From its ring. Without one, has_ring is false and these are meaningless.
  bool has_ring = false;
  RankPhase phase = RankPhase::kUnknown;
  Duration in_phase;
  Duration quiet_for;                       // since it last began, completed or stepped
  Duration step_p99;                        // 0: too few steps were timed
  Duration phase_longest;                   // longest completed stretch of this phase; 0: none
  std::vector<CollectiveSeen> collectives;  // newest of each group, oldest first
  // From the kernel, by two looks.
  char state = '?';    // of its main thread, as in /proc/PID/stat; 'T' stopped, 't' traced
  int stopped_by = 0;  // the signal that stopped it; 0: unknown
  // The pid of a descendant that a signal stopped, such as a DataLoader's worker; 0: none.
  int32_t stopped_child = 0;
  Duration watched;    // between the looks
  Duration cpu;        // CPU time meanwhile, of all its threads
  bool moved = false;  // meanwhile bytes were read or written, or a system call returned
  // For so long its processes have neither computed nor moved bytes, and its agent watched them.
  Duration idle_for;
  bool is_pressed = false;  // its host has too few processors for what runs there
  std::string waits_in;     // the system call of the main thread, with its path or peer; "" unknown
  // The stack of the main thread, innermost frame first. If empty, `no_stack` says why.
  std::vector<StackFrame> stack;
  std::string no_stack;
  // An exception reached the top of its script. Empty: none did.
  std::string raised;            // "ValueError: bad batch (train.py:31)"
  std::string raised_as;         // equal for equal exceptions: "ValueError@train.py:31"
  Duration raised_for;           // since then
  bool raised_is_final = false;  // no restart can mend it
  bool operator==(const RankEvidence&) const = default;
};

// One agent's answer to one question of the master.
struct NodeEvidence {
  Generation generation;
  uint64_t round = 0;
  std::vector<RankEvidence> ranks;
  bool operator==(const NodeEvidence&) const = default;
};

// A round with this bit is a person's question; its answers are not used to judge a hang.
inline constexpr uint64_t kAskedByPerson = uint64_t{1} << 63;

// `raised` and `raised_as` of an exception whose record could not be read.
inline constexpr std::string_view kUnknownException = "an exception";

// Limits, so that an agent's evidence about 64 ranks fits into one message.
inline constexpr size_t kGroupsSeenMax = 6;       // of a rank, those used last
inline constexpr size_t kCollectivesSeenMax = 4;  // of each group
inline constexpr size_t kStackFramesMax = 12;

}  // namespace paceline
