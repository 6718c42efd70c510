#pragma once

// Copies of what hosts have in memory, on other hosts, so that a lost host costs a fetch and not a
// return to storage. A part of the checkpoint ledger, and as pure.
//
// A round replicates one step. Hosts are grouped as in GEMINI (Wang et al., SOSP 2023): groups of
// replicas + 1 failure domains, the last one larger, and within its group each host's images go to
// the next ones. Of all placements this loses least when several hosts fail at once. A host whose
// tensors are equal to another's (data parallel) has its copy already; nothing is sent for it.
//
//   idle ──a newer whole step──▶ round ──every holder has its copies──▶ idle, replicated
//                                  └─a holder fails: another one; none is left: idle, and later──▶

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/checkpoint/restore.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/world.h"

namespace paceline::core {

// Which of `count` failure domains hold copies of number `index`, the best first: all the others,
// those of its own group before the rest.
std::vector<size_t> HoldersFor(size_t index, size_t count, uint32_t replicas);

class Replication {
 public:
  // Starts and follows rounds. `wanted`: the newest step that is worth a round now. Notes what it
  // learned about equal files in `memories`.
  void Settle(Instant now, const World& world, std::optional<uint32_t> asked,
              std::optional<SavedStep> wanted, Memories* memories, std::vector<std::string>* said);
  // That node's agent is another one now, and listens somewhere else.
  void Readdress(const std::string& node, const std::string& address);
  // Another world: what was replicated of the last one is in the reports.
  void Reset();

  // All copies that this node shall have. After a round that was given up: those of the last one.
  std::vector<FetchOrder> OrdersFor(NodeId node) const;
  // Which files of newest() equal one that this node saved.
  std::vector<EqualFiles> EqualFor(NodeId node) const;
  // What is not among them may go: every image has its copies.
  bool is_complete() const { return round_.has_value() && round_->is_done; }
  // Some holder has still to fetch.
  bool is_busy() const { return round_.has_value() && !round_->is_done; }

  // The step of which copies are being made.
  std::optional<SavedStep> copying() const {
    return is_busy() ? std::optional(round_->saved) : std::nullopt;
  }

  // Copies of each image; 0 when there is nobody to hold one.
  uint32_t replicas() const { return replicas_; }
  std::optional<SavedStep> newest() const { return newest_; }
  // Why there are no copies of newer steps; empty: there are, or will be.
  const std::string& problem() const { return problem_; }
  bool TakeChanged();
  Instant NextDeadline() const;

 private:
  struct Round {
    SavedStep saved;
    std::map<NodeId, std::vector<FetchOrder>> orders;
    Instant since;
    bool is_done = false;
  };
  using Domains = std::vector<std::vector<NodeId>>;

  std::optional<Round> Plan(const World& world, const Domains& domains, SavedStep saved,
                            const Memories& memories, std::string* why) const;
  void Watch(Instant now, const World& world, const Domains& domains, Memories* memories,
             std::vector<std::string>* said);
  void NoteEqual(const World& world, SavedStep saved, const std::map<Rank, uint64_t>& roots);
  void GiveUp(Instant now, const std::string& why, std::vector<std::string>* said);

  uint32_t replicas_ = 0;
  std::optional<Round> round_;
  std::optional<Round> last_done_;
  std::optional<SavedStep> newest_;
  std::vector<EqualFiles> equal_;                     // of newest_
  std::map<NodeId, std::vector<size_t>> equal_here_;  // of each node's files: indexes into equal_
  std::set<std::pair<NodeId, Rank>> refused_;  // holders that could not, in the present round
  std::string problem_;
  uint32_t failures_in_a_row_ = 0;
  std::optional<Instant> not_before_;  // of the next round
  bool has_changed_ = false;
};

}  // namespace paceline::core
