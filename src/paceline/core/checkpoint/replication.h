#pragma once

// Copies of images on other hosts, so that after the loss of a host a restore fetches them instead
// of returning to storage. A part of the checkpoint ledger, and as pure.
//
// A round replicates one step. Hosts are grouped as in GEMINI (Wang et al., SOSP 2023): groups of
// replicas + 1 failure domains, the last one larger; within its group each host's images go to the
// next ones. Of all placements this loses least if several hosts fail at once. If two hosts have
// equal tensors (data parallel), each is the other's copy and nothing is sent.
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

// The failure domains, out of `count`, that hold copies of domain `index`, best first: its own
// group, then the others.
std::vector<size_t> HoldersFor(size_t index, size_t count, uint32_t replicas);

class Replication {
 public:
  // Starts and follows rounds. `wanted` is the newest step to replicate now. Notes equal files in
  // `memories`.
  void Settle(Instant now, const World& world, std::optional<uint32_t> asked,
              std::optional<SavedStep> wanted, Memories* memories, std::vector<std::string>* said);
  // The node's agent was restarted and has a new address.
  void Readdress(const std::string& node, const std::string& address);
  // Called for a new world. The reports tell what is left of the last one.
  void Reset();

  // All copies that this node must have. After a round that was given up: those of the last
  // complete one.
  std::vector<FetchOrder> OrdersFor(NodeId node) const;
  // The files of newest() that equal a file saved by this node.
  std::vector<EqualFiles> EqualFor(NodeId node) const;
  // True if every image has its copies; other images may then be dropped.
  bool is_complete() const { return round_.has_value() && round_->is_done; }
  // A holder still has to fetch.
  bool is_busy() const { return round_.has_value() && !round_->is_done; }

  // The step that is being copied.
  std::optional<SavedStep> copying() const {
    return is_busy() ? std::optional(round_->saved) : std::nullopt;
  }

  // Copies of each image; 0 if there is no holder.
  uint32_t replicas() const { return replicas_; }
  std::optional<SavedStep> newest() const { return newest_; }
  // Why newer steps have no copies; empty if they have, or will have.
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
  std::set<std::pair<NodeId, Rank>> refused_;         // holders that failed in the present round
  std::string problem_;
  uint32_t failures_in_a_row_ = 0;
  std::optional<Instant> not_before_;  // of the next round
  bool has_changed_ = false;
};

}  // namespace paceline::core
