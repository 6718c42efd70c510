#pragma once

// The partitions of a live stream, as a part of its data set in the lease book: which there are,
// which of their records were not read, and how far each one is. Rebuilt from facts.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/data/lease/interval_set.h"
#include "paceline/data/lease/partition.h"

namespace paceline {

// A partition, for people.
struct PartitionView {
  std::string name;
  uint64_t offset = 0;             // the first one that is not done
  std::optional<uint64_t> holder;  // rank that reads there
  std::optional<uint64_t> lag;     // records behind the newest one that a reader has told
  bool is_over = false;            // it has an end, and all of it is done
};

class LeaseStream {
 public:
  static constexpr size_t kReasonsMax = 5;  // the newest
  // Reports of refused records that are kept, the newest. An endless stream has more and more.
  static constexpr size_t kRefusedMax = 10'000;

  const std::vector<Partition>& partitions() const { return partitions_; }
  const Partition* Find(const std::string& name) const;
  // The partition of an ordinal; null if none was found there.
  const Partition* At(uint64_t ordinal) const;

  // Where the next partition gets its ordinals; no `length`: it has no end.
  OrdinalRange NextRange(std::optional<uint64_t> length) const;
  // False: the range is not that of the next partition, or the name is known.
  bool Add(Partition partition);

  // Records that retention has eaten, and records that `decode` refused. They are done all the
  // same.
  void AddGap(OrdinalRange range) { gaps_.Add(range); }
  void AddRefused(OrdinalRange range, const std::string& reason);
  const IntervalSet& gaps() const { return gaps_; }
  const IntervalSet& refused() const { return refused_; }
  const std::deque<std::string>& reasons() const { return reasons_; }
  // After a rewind: forgets the ranges that will be read again.
  void Rewind(const IntervalSet& done);

  // A reader told that the newest record is below this ordinal. Not durable.
  void SetEnd(uint64_t end);
  PartitionView ViewOf(const Partition& partition, const IntervalSet& done) const;
  // Records that exist as far as is known.
  uint64_t known(const IntervalSet& done) const;

 private:
  std::vector<Partition> partitions_;
  std::map<std::string, uint64_t> by_name_;
  IntervalSet gaps_;
  IntervalSet refused_;
  std::deque<OrdinalRange> refused_order_;  // the oldest first
  std::deque<std::string> reasons_;
  std::map<uint64_t, uint64_t> ends_;  // by number
};

// The done ranges of a position of another ledger, whose partitions may have other numbers, with
// the ordinals of `own`. None if a partition has begun later there than here.
std::optional<std::vector<OrdinalRange>> Translated(const std::vector<OrdinalRange>& done,
                                                    const std::vector<Partition>& theirs,
                                                    const LeaseStream& own);

// A line each: "begin end base name".
std::string PartitionsToText(const std::vector<Partition>& partitions);
std::optional<std::vector<Partition>> PartitionsFromText(std::string_view text);

}  // namespace paceline
