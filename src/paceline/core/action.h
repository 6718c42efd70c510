#pragma once

// What the host shall do after a step: persist the records, then run the effects in order, and
// show the notes. Effects are idempotent; a lost one is told again by reconciliation.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/wish.h"
#include "paceline/model/world.h"

namespace paceline::core {

// From now on this connection speaks for that node; an older connection of the node is closed.
struct AdmitNode {
  ConnectionId connection;
  NodeId node;
};

// Close the connection with a four-part error. Nothing of the job changes.
struct RefuseNode {
  ConnectionId connection;
  std::string code;  // "PL-E…"
  std::string what;
  std::string why;
  std::string fix;
  bool retry = false;  // true: the cause may pass within seconds, so the agent tries again
};

// Push the node's desired state. Dropped when the node has no connection: it is told at its return.
struct AssignNode {
  NodeId node;
  Assignment assignment;
};

// Push what the node shall do about checkpoints. Dropped and told again as above.
struct OrderCheckpoint {
  NodeId node;
  CheckpointOrder order;
};

// Ask the node what its ranks do now. Lost with the connection: who does not answer in time is
// judged without.
struct CollectEvidence {
  NodeId node;
  Generation generation;
  uint64_t round = 0;
};

// What the platform shall run from now on. The host tells it again to each launcher that comes.
struct TellWish {
  Wish wish;
};

// The job is over: answer everybody, close the journal, exit.
struct FinishJob {
  int exit_code = 0;
  std::string reason;
};

using Effect = std::variant<AdmitNode, RefuseNode, AssignNode, OrderCheckpoint, CollectEvidence,
                            TellWish, FinishJob>;

// For people only: never read back. A decision's note is its record's sentence.
struct Note {
  enum class Level { kInfo, kWarning };
  Level level = Level::kInfo;
  std::string text;
};

struct Actions {
  std::vector<Record> records;
  std::vector<Effect> effects;
  std::vector<Note> notes;
};

}  // namespace paceline::core
