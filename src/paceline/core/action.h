#pragma once

// The host's work after a step: make the records durable, then run the effects in order, and show
// the notes. Effects are idempotent; a lost one is repeated by reconciliation.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/link_test.h"
#include "paceline/model/wish.h"
#include "paceline/model/world.h"

namespace paceline::core {

// From now on this connection belongs to the node; the host closes an older connection of the node.
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
  bool retry = false;  // the cause may pass within seconds, so the agent tries again
};

// Sends the node its desired state. Dropped if the node is not connected: it gets the state when it
// returns.
struct AssignNode {
  NodeId node;
  Assignment assignment;
};

// Sends the node its checkpoint order. Dropped and repeated as above.
struct OrderCheckpoint {
  NodeId node;
  CheckpointOrder order;
};

// Asks the node what its ranks are doing. Lost with the connection: a node that does not answer in
// time is judged without its evidence.
struct CollectEvidence {
  NodeId node;
  Generation generation;
  uint64_t round = 0;
};

// Asks the node to test its link to another one. Lost with the connection: the answer has a
// deadline.
struct TestLink {
  NodeId node;
  LinkTry order;
};

// The nodes that the platform must run from now on. The host repeats it to each new launcher.
struct TellWish {
  Wish wish;
};

// The job is over: answer all requests, close the journal, exit.
struct FinishJob {
  int exit_code = 0;
  std::string reason;
};

using Effect = std::variant<AdmitNode, RefuseNode, AssignNode, OrderCheckpoint, CollectEvidence,
                            TestLink, TellWish, FinishJob>;

// For people only; never read back. A decision's note is the sentence of its record.
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
