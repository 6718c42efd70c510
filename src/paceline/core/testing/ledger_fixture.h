#pragma once

// A checkpoint ledger, with the reports that agents of a small world would send.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/checkpoint/ledger.h"

namespace paceline::core {

// Each node has one rank.
class LedgerTest : public ::testing::Test {
 protected:
  void Form(uint64_t generation, uint32_t ranks) {
    world_ = World{.generation = Generation(generation), .seats = {}};
    for (uint32_t i = 0; i < ranks; ++i) world_.seats.push_back({NodeId(i + 1), i, 1});
    reports_.resize(std::max<size_t>(reports_.size(), ranks));
    for (size_t i = 0; i < reports_.size(); ++i) {
      CheckpointReport& report = reports_[i];
      report.place = "n" + std::to_string(i);
      report.generation = world_.generation;
      report.terms = terms_;
      report.shards.clear();
      report.commit.reset();
    }
  }

  // Rank `rank` has it in its node's memory; equal roots are equal files.
  void Save(uint32_t rank, uint64_t generation, int64_t step, uint64_t root = 7) {
    reports_[rank].images.push_back({.rank = Rank(rank),
                                     .place = "n" + std::to_string(rank),
                                     .saved = {generation, step},
                                     .world_size = world_.world_size(),
                                     .file_bytes = 100,
                                     .file_root = root});
  }
  void SaveAll(int64_t step, bool is_sharded = false) {
    for (uint32_t rank = 0; rank < world_.world_size(); ++rank) {
      Save(rank, world_.generation.value(), step, is_sharded ? rank : 7);
    }
  }

  // Every node of the world reports, then everything due happens.
  void Run() {
    for (uint32_t i = 0; i < world_.world_size(); ++i) Tell(NodeId(i + 1));
    Settle();
  }
  // One node reports.
  void Run(NodeId node) {
    Tell(node);
    Settle();
  }
  void Tell(NodeId node) {
    CheckpointReport& report = reports_[node.value() - 1];
    report.is_final = is_ending_ && !are_ranks_left_;
    ledger_.Report(node, report);
  }
  void Settle() {
    for (;;) {
      auto fact = ledger_.Next(now_, View(), &said_);
      if (!fact.has_value()) return;
      Apply(*fact, now_, &book_);
      facts_.push_back(*fact);
    }
  }
  // Carries out the orders as agents with a working disk would.
  void CarryOut() {
    for (uint32_t i = 0; i < world_.world_size(); ++i) {
      const CheckpointOrder order = Order(i);
      if (order.persist.has_value()) {
        reports_[i].shards.clear();
        for (const auto& shard : order.persist->shards) {
          reports_[i].shards.push_back({shard.rank, order.persist->saved, true, "", {}});
        }
      }
      if (order.commit.has_value()) {
        reports_[i].commit = CommitState{order.commit->name, true, "", 100};
      }
    }
    Run();
  }

  CheckpointView View() const {
    std::vector<NodeId> members;
    for (const Seat& seat : world_.seats) {
      if (!lost_.contains(seat.node) && !gone_.contains(seat.node)) members.push_back(seat.node);
    }
    members.insert(members.end(), left_.begin(), left_.end());
    return {.book = book_,
            .world = &world_,
            .job_id = "job",
            .is_ending = is_ending_,
            .is_hurried = is_hurried_,
            .has_ended = {},
            .is_gone = gone_.empty() ? IsGone()
                                     : IsGone([this](NodeId node) { return gone_.contains(node); }),
            .members = members};
  }
  CheckpointOrder Order(uint32_t rank) const { return ledger_.OrderFor(NodeId(rank + 1), View()); }

  CheckpointTerms terms_{.directory = "/d", .keep = 2, .policy = {}};
  World world_;
  std::vector<CheckpointReport> reports_;
  CheckpointLedger ledger_;
  CheckpointBook book_;
  std::vector<CheckpointFact> facts_;
  std::vector<std::string> said_;
  Instant now_ = Instant::FromNanoseconds(1);
  bool is_ending_ = false;
  bool is_hurried_ = false;
  std::set<NodeId> lost_;
  std::set<NodeId> gone_;        // of the world; their ranks had ended
  std::set<NodeId> left_;        // members without a seat
  bool are_ranks_left_ = false;  // at the job's end they may save once more
};

}  // namespace paceline::core
