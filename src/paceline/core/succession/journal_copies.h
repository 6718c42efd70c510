#pragma once

// Which nodes keep copies of the master's journal, and what each of them is sent next.
//
// If this master's host is lost, the next master learns the job from a copy. No decision waits for
// a copy, so the newest records may be missing in it. Two nodes have copies, if possible on hosts
// other than the master's. If one of them loses its connection, another node takes its place. A
// node that comes later takes the place of one that shares a host with the master or the other
// copy.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/model/ids.h"

namespace paceline::core {

inline constexpr size_t kCopies = 2;

// A node with a connection.
struct CopyCandidate {
  NodeId node;
  std::string host;  // equal for nodes that are lost together
};

// The nodes that shall have copies, kCopies at most: those that have one already as long as they
// are no worse, then those of other hosts than the master's, then those of different hosts, then
// the lowest ids.
std::vector<NodeId> ChooseKeepers(const std::string& own_host,
                                  const std::vector<CopyCandidate>& candidates,
                                  const std::vector<NodeId>& present);

class JournalCopies {
 public:
  // Lengths are of the journal's content; `piece_max`: of what is sent at once.
  JournalCopies(std::string own_host, uint64_t piece_max)
      : own_host_(std::move(own_host)), piece_max_(piece_max) {}

  // The node has a new connection. A piece that was sent on an earlier one is lost.
  void Came(NodeId node, std::string name, std::string host);
  void Went(NodeId node);
  // The node reports the length of its copy of this journal.
  void Held(NodeId node, uint64_t taken);

  struct Send {
    NodeId node;
    uint64_t from = 0;
    uint64_t size = 0;
    bool is_whole = false;  // with it the copy has all of the journal
  };
  // The pieces to send now, if the journal has that length: one at a time to each keeper.
  std::vector<Send> Next(uint64_t length);

  // Names of the nodes that have copies, or are being sent them.
  std::vector<std::string> keepers() const;

 private:
  struct Node {
    std::string name;
    std::string host;
  };
  struct Keeper {
    uint64_t taken = 0;
    bool is_waiting = false;  // a piece is on its way
    std::vector<std::string> told;
  };

  // Whether the copies are on different hosts, none of them the master's.
  bool AreApart() const;

  std::string own_host_;
  uint64_t piece_max_;
  bool has_newcomer_ = false;  // since the keepers were chosen
  std::map<NodeId, Node> here_;
  std::map<NodeId, Keeper> keepers_;
};

}  // namespace paceline::core
