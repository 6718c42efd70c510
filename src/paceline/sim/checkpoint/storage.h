#pragma once

// The shared directory of checkpoints, as in ckpt/storage/storage.h but without bytes: shards,
// parts, manifests, LATEST. An operation consists of stages, between which a crash may leave
// something behind. The caller lets time pass between them.
//
// Storage can be full, unreachable or stalled, and its content can be torn, flipped or lost.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/retention.h"
#include "paceline/sim/checkpoint/arena.h"

namespace paceline::sim {

struct SimShard {
  SimImage image;
  bool is_whole = false;  // all its bytes are written
};

struct SimManifest {
  std::string job_id;
  SavedStep saved;
  uint32_t world_size = 0;
  std::vector<PersistOrder::Shard> shards;
  std::map<uint32_t, uint64_t> root_of;  // of each file, by its rank
};

struct SimFolder {
  std::map<uint32_t, SimShard> files;  // by rank
  struct Part {
    SavedStep saved;
    Rank file_of;
    uint64_t root = 0;  // of its file, if the rank has its own
  };
  std::map<uint32_t, Part> parts;  // durable ones, by rank
  std::optional<SimManifest> manifest;
  Instant changed;
};

class Storage {
 public:
  using Folders = std::map<std::string, SimFolder>;

  // --- faults ---
  bool is_full = false;
  bool is_away = false;     // every operation fails
  bool is_stalled = false;  // no operation ends

  // Damages the checkpoint. That is not a bug of the job, unless the damage is visible before the
  // commit.
  void Hurt(const std::string& name, bool is_visible);

  // --- stages; a returned text is the error ---
  // A file becomes visible only at its end.
  std::string BeginShard(const std::string& name, Instant now);
  std::string EndShard(const std::string& name, const SimImage& image, Rank file_of, Instant now);
  // Whether a newer checkpoint is there.
  bool IsPassed(const PersistOrder& order) const;
  // The manifest to be written. Without `checks` nothing is verified, for a canary.
  std::string Assemble(const PersistOrder& order, bool checks, SimManifest* manifest);
  std::string WriteManifest(const std::string& name, const SimManifest& manifest, Instant now);
  std::string WriteLatest(const std::string& name);
  // The claim of the directory carries the term of the job's master. False: it has a higher one.
  bool Claim(uint64_t term) {
    if (term < term_) return false;
    if (!is_away && !is_stalled) term_ = term;
    return true;
  }
  void RemoveParts(const std::string& name);
  // Applies retention. `keeps_newest` is false for a canary.
  void Prune(uint32_t keep, bool keeps_newest);

  std::string Newest(const std::set<std::string>& except,
                     std::optional<StoredCheckpoint>* found) const;

  // --- readers ---
  enum class Read { kWhole, kDamaged, kUnreadable };
  // Reads the part for `rank` in a world of that size; `is_fetched`: from its host's disk.
  Read ReadFor(const std::string& name, uint32_t rank, uint32_t world_size, bool is_fetched,
               std::vector<SimImage>* images) const;

  // --- truth ---
  const Folders& folders() const { return folders_; }
  Folders& folders() { return folders_; }
  const std::string& latest() const { return latest_; }
  // Why this folder cannot be restored; empty if it can.
  std::string WhatIsWrongWith(const std::string& name) const;
  const std::set<std::string>& hurt() const { return hurt_; }
  // A node has looked into storage successfully.
  void NoteSeen() { was_seen_ = true; }
  bool was_seen() const { return was_seen_; }
  uint64_t removal_count() const { return removal_count_; }

 private:
  std::string Trouble() const { return is_away ? "input/output error" : ""; }
  std::string TroubleOfWriting() const;
  std::vector<KeptFolder> Kept() const;

  Folders folders_;
  std::string latest_;
  uint64_t term_ = 0;  // in the claim
  std::set<std::string> hurt_;
  bool was_seen_ = false;
  std::set<std::string> checked_;  // assembled; the manifest may be written already
  uint64_t removal_count_ = 0;
};

}  // namespace paceline::sim
