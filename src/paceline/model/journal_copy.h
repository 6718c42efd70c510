#pragma once

// A node's copy of the master's journal, as both sides speak of it: docs/formats/journal_copy.md.
// `Content` is bytes in production, and records in the simulator.

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

// Which copy a node has. Of two copies the one of the higher term is newer, then the longer one.
struct CopyOffer {
  uint64_t term = 0;                 // of the master that sent it
  uint64_t length = 0;               // of its content; 0: the node has none
  std::vector<std::string> keepers;  // names of the nodes that had copies then, this one among them

  bool IsNewerThan(const CopyOffer& other) const {
    return term != other.term ? term > other.term : length > other.length;
  }
  bool operator==(const CopyOffer&) const = default;
};

// A part of the journal, on its way to a copy of it or back.
template <class Content>
struct JournalPiece {
  uint64_t term = 0;  // of the master that sends it, or sent it
  uint64_t from = 0;  // where it begins
  Content content;
  bool is_whole = false;  // with it the copy has all that was on the master's disk
  std::vector<std::string> keepers;
  bool operator==(const JournalPiece&) const = default;
};

}  // namespace paceline
