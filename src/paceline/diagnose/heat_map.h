#pragma once

// Heat map: how much longer each rank's own work took than its peers', for each 10 s of the last
// half hour. For a picture alone: SlowWatch decides which ranks are named.
//
// The idea: a step takes equally long on all ranks, so the map has own work and data loading, which
// differ. A rank is compared with the median of its peers: the other ranks of its pipeline stage if
// the stages are known, else all others. One byte per rank and 10 s is kept, and nothing is
// averaged over ranks, so that one slow rank of 10,000 stays visible.
//
// A rank tells its times after each block of steps, which may take longer than 10 s. The value then
// stands in all columns that its steps covered.

#include <cstdint>
#include <deque>
#include <vector>

#include "paceline/model/rank_sample.h"

namespace paceline::diagnose {

class HeatMap {
 public:
  static constexpr int64_t kColumnSeconds = 10;
  static constexpr size_t kColumns = 180;  // older ones are forgotten
  static constexpr uint8_t kUntold = 0;    // no steps of the rank are known for this time
  static constexpr uint8_t kUsual = 101;   // as long as its peers; each percent more is one more
  static constexpr uint8_t kMost = 255;    // 154 % longer, or more

  struct Column {
    int64_t number = 0;    // of its begin: seconds since the clock's zero, divided by 10
    uint64_t version = 0;  // when it changed last
    Generation generation;
    std::vector<uint8_t> ranks;
  };

  // From now on only samples of this world count. Former columns stay.
  void Begin(Generation generation, size_t ranks);
  // Compares the ranks within their stages. `stages` has one entry per rank; empty: among all.
  void SetStages(std::vector<uint32_t> stages);

  void Take(Instant now, const RankSample& sample);
  // Ends the column of a time that has passed.
  void PassTime(Instant now);

  Generation generation() const { return generation_; }
  bool has_stages() const { return !stages_.empty(); }
  bool is_piped() const { return is_piped_; }    // the ranks send point to point
  uint64_t version() const { return version_; }  // of the newest change
  const std::deque<Column>& columns() const { return columns_; }

 private:
  void EndColumn();
  std::vector<uint8_t> Compare() const;
  int64_t Covered(size_t rank) const;
  void AddCovered(const std::vector<uint8_t>& bytes);
  void Fill(size_t rank, uint8_t value);

  Generation generation_;
  std::vector<uint32_t> stages_;
  bool is_piped_ = false;
  int64_t now_ = 0;               // number of the column that is not ended yet
  std::vector<StepSums> newest_;  // by rank
  std::vector<StepSums> mark_;    // at the end of the last column in which the rank had news
  std::deque<Column> columns_;    // oldest first
  uint64_t version_ = 0;
};

}  // namespace paceline::diagnose
