#pragma once

// A checkpoint ledger and hosts that carry out its orders: they save, and fetch from each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/checkpoint/ledger.h"

namespace paceline::core {

// One rank a host. A fetch succeeds if it was ordered.
class Hosts : public ::testing::Test {
 protected:
  static std::string Name(size_t host) { return "n" + std::to_string(host); }

  struct Host {
    bool is_alive = true;
    std::string domain;
    std::vector<MemoryImage> images;
    std::vector<FetchFailure> failed;
    std::optional<StoredCheckpoint> stored;
    std::vector<EqualFiles> equal;  // from the last order
  };

  void Make(size_t count) {
    hosts_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (hosts_[i].domain.empty()) hosts_[i].domain = "host " + std::to_string(i);
    }
  }
  // Rank i on host seats[i].
  void Form(uint64_t generation, const std::vector<size_t>& seats) {
    world_ = World{.generation = Generation(generation), .seats = {}, .store = {}};
    for (uint32_t i = 0; i < seats.size(); ++i) {
      world_.seats.push_back({NodeId(static_cast<uint32_t>(seats[i])), i, 1});
    }
    Tell();
  }
  void Save(int64_t step, const std::vector<uint64_t>& roots) {
    for (uint32_t rank = 0; rank < world_.seats.size(); ++rank) {
      const uint64_t root = roots[rank % roots.size()];
      const size_t host = world_.seats[rank].node.value();
      hosts_[host].images.push_back({.rank = Rank(rank),
                                     .place = Name(host),
                                     .saved = {world_.generation.value(), step},
                                     .world_size = world_.world_size(),
                                     .file_bytes = 100,
                                     .file_root = root,
                                     .root = root * 1000 + rank});
    }
  }
  void Tell() {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (!hosts_[i].is_alive) continue;
      CheckpointReport report;
      report.generation = world_.generation;
      report.terms = terms_;
      report.images = hosts_[i].images;
      report.stored = hosts_[i].stored;
      report.place = Name(i);
      report.address = Name(i) + ":" + std::to_string(port_);
      report.domain = hosts_[i].domain;
      report.failed = hosts_[i].failed;
      report.equal = hosts_[i].equal;
      ledger_.Report(NodeId(static_cast<uint32_t>(i)), report);
    }
    for (;;) {
      const auto fact = ledger_.Next(now_, View(), &said_);
      if (!fact.has_value()) break;
      Apply(*fact, now_, &book_);
    }
    for (size_t i = 0; i < hosts_.size(); ++i) {
      const std::vector<EqualFiles> equal = Order(i).equal;
      if (hosts_[i].is_alive && !equal.empty()) hosts_[i].equal = equal;
    }
  }
  CheckpointView View() const {
    return {.book = book_,
            .world = &world_,
            .job_id = "job",
            .is_ending = is_ending_,
            .failures = 0,
            .age = {}};
  }
  CheckpointOrder Order(size_t host) const {
    return ledger_.OrderFor(NodeId(static_cast<uint32_t>(host)), View());
  }
  // Each host carries out its fetches once. Hosts in `cannot` report a failure.
  void Fetch(const std::vector<size_t>& cannot = {}) {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      hosts_[i].failed.clear();
      for (const FetchOrder& order : Order(i).fetch) {
        if (std::count(cannot.begin(), cannot.end(), i) > 0) {
          hosts_[i].failed.push_back({order.rank, order.saved, "no room"});
        } else if (!HasCopy(i, order.rank.value(), order.saved)) {
          fetched_.push_back({i, order.rank.value(), order.sources.front().node});
          MemoryImage image = Original(order);
          image.place = Name(i);
          image.is_copy = true;
          hosts_[i].images.push_back(image);
        }
      }
    }
    Tell();
  }
  void Replicate() {
    Tell();
    Fetch();
  }
  // The image in any host's memory.
  MemoryImage Original(const FetchOrder& order) const {
    for (const Host& host : hosts_) {
      for (const MemoryImage& image : host.images) {
        const bool is_it = image.rank == order.rank && image.saved == order.saved;
        if (host.is_alive && is_it && (order.root == 0 || image.root == order.root)) return image;
      }
    }
    // The image from storage.
    return {.rank = order.rank, .place = "", .saved = order.saved, .root = 1};
  }
  bool HasCopy(size_t host, uint32_t rank, SavedStep saved) const {
    return std::any_of(hosts_[host].images.begin(), hosts_[host].images.end(),
                       [&](const MemoryImage& image) {
                         return image.is_copy && image.rank == Rank(rank) && image.saved == saved;
                       });
  }
  void Lose(size_t host) {
    hosts_[host].is_alive = false;
    hosts_[host].images.clear();
    ledger_.Forget(NodeId(static_cast<uint32_t>(host)));
  }

  struct Fetched {
    size_t host;
    uint32_t rank;
    std::string from;
    auto operator<=>(const Fetched&) const = default;
  };

  int port_ = 1;
  bool is_ending_ = false;
  CheckpointTerms terms_{.directory = "/d", .keep = 2, .policy = {}, .replicas = {}};
  std::vector<Host> hosts_;
  World world_;
  CheckpointLedger ledger_;
  CheckpointBook book_;
  std::vector<Fetched> fetched_;
  std::vector<std::string> said_;
  Instant now_ = Instant::FromNanoseconds(1'000'000'000);
};

}  // namespace paceline::core
