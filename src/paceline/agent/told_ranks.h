#pragma once

// The last report of each rank to the master, so that only changes are sent.

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "paceline/model/node.h"

namespace paceline::agent {

// A rank that the starter was asked for.
struct Spawning {
  uint32_t local_rank = 0;
  Generation generation;
  Rank rank;
};

class ToldRanks {
 public:
  // For a registration, which contains the reports of all ranks.
  void Reset(const std::vector<RankReport>& ranks) {
    told_.clear();
    for (const RankReport& rank : ranks) told_[rank.local_rank] = rank;
  }
  void Forget(uint32_t local_rank) { told_.erase(local_rank); }

  // The ranks whose reports differ from the last ones; they count as told then.
  std::vector<RankReport> TakeNews(const std::vector<RankReport>& ranks) {
    std::vector<RankReport> news;
    for (const RankReport& rank : ranks) {
      const auto told = told_.find(rank.local_rank);
      if (told != told_.end() && told->second == rank) continue;
      told_[rank.local_rank] = rank;
      news.push_back(rank);
    }
    return news;
  }
  // Whether a rank has another state than the last report said.
  bool HasNewState(const std::vector<RankReport>& ranks) const {
    return std::any_of(ranks.begin(), ranks.end(), [this](const RankReport& rank) {
      const auto told = told_.find(rank.local_rank);
      return told == told_.end() || told->second.state != rank.state;
    });
  }

 private:
  std::map<uint32_t, RankReport> told_;  // by local rank
};

}  // namespace paceline::agent
