#include "paceline/diagnose/heat_map.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "paceline/diagnose/slow.h"

namespace paceline::diagnose {
namespace {

constexpr int64_t kColumnNanoseconds = HeatMap::kColumnSeconds * 1'000'000'000;

double BusyOf(const StepSums& now, const StepSums& then) {
  const double busy = (now.own - then.own).ToSecondsF() + (now.data - then.data).ToSecondsF();
  return busy / static_cast<double>(now.steps - then.steps);
}

uint8_t ByteOf(double busy, double usual) {
  if (usual <= 0) return HeatMap::kUsual;  // it has no peers
  const double percent = std::min(1000.0, (busy / usual - 1) * 100);
  return static_cast<uint8_t>(
      std::clamp<int64_t>(HeatMap::kUsual + std::llround(percent), 1, HeatMap::kMost));
}

}  // namespace

void HeatMap::Begin(Generation generation, size_t ranks) {
  if (generation_ != Generation()) EndColumn();
  generation_ = generation;
  stages_.clear();
  is_piped_ = false;
  newest_.assign(ranks, {});
  mark_.assign(ranks, {});
}

void HeatMap::SetStages(std::vector<uint32_t> stages) {
  if (stages.size() != newest_.size()) stages.clear();
  stages_ = std::move(stages);
}

void HeatMap::Take(Instant now, const RankSample& sample) {
  PassTime(now);
  const size_t rank = sample.rank.value();
  if (sample.generation != generation_ || rank >= newest_.size()) return;
  const StepSums& last = newest_[rank];
  const bool is_behind = sample.sums.steps < last.steps || sample.sums.own < last.own ||
                         sample.sums.data < last.data || sample.sums.whole < last.whole;
  if (is_behind) return;
  is_piped_ = is_piped_ || sample.sums.is_piped;
  newest_[rank] = sample.sums;
}

void HeatMap::PassTime(Instant now) {
  const int64_t number = now.nanoseconds() / kColumnNanoseconds;
  if (number <= now_) return;
  if (generation_ != Generation()) EndColumn();
  // A master that begins later has a newer version than any reader of the one before.
  if (version_ == 0) version_ = static_cast<uint64_t>(number) << 20;
  now_ = number;
}

// Byte of each rank, kUntold for those without news.
std::vector<uint8_t> HeatMap::Compare() const {
  std::map<uint32_t, std::vector<double>> by_stage;
  std::vector<double> busy(newest_.size(), 0);
  const auto stage_of = [this](size_t rank) { return stages_.empty() ? 0 : stages_[rank]; };
  const auto has_news = [this](size_t rank) { return newest_[rank].steps > mark_[rank].steps; };
  for (size_t rank = 0; rank < newest_.size(); ++rank) {
    if (!has_news(rank)) continue;
    busy[rank] = BusyOf(newest_[rank], mark_[rank]);
    by_stage[stage_of(rank)].push_back(busy[rank]);
  }
  for (auto& [stage, values] : by_stage) std::sort(values.begin(), values.end());
  std::vector<uint8_t> bytes(newest_.size(), kUntold);
  for (size_t rank = 0; rank < newest_.size(); ++rank) {
    if (!has_news(rank)) continue;
    bytes[rank] = ByteOf(busy[rank], MedianWithout(by_stage[stage_of(rank)], busy[rank]));
  }
  return bytes;
}

void HeatMap::EndColumn() {
  std::vector<uint8_t> bytes = Compare();
  if (std::all_of(bytes.begin(), bytes.end(), [](uint8_t one) { return one == kUntold; })) return;
  ++version_;
  AddCovered(bytes);
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    if (bytes[rank] != kUntold) Fill(rank, bytes[rank]);
  }
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    if (bytes[rank] != kUntold) mark_[rank] = newest_[rank];
  }
  // In the time of two worlds the later one counts.
  if (!columns_.empty() && columns_.back().number == now_) columns_.pop_back();
  columns_.push_back({now_, version_, generation_, std::move(bytes)});
  while (columns_.size() > kColumns) columns_.pop_front();
}

// Number of whole columns that the steps since the last news took. The time of a pause between
// steps is not among them.
int64_t HeatMap::Covered(size_t rank) const {
  const Duration steps = newest_[rank].whole - mark_[rank].whole;
  return std::min<int64_t>(steps.nanoseconds() / kColumnNanoseconds, kColumns);
}

// Adds columns in which no rank told anything, but made steps that are told now.
void HeatMap::AddCovered(const std::vector<uint8_t>& bytes) {
  int64_t most = 0;
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    if (bytes[rank] != kUntold) most = std::max(most, Covered(rank));
  }
  int64_t number = now_ - most;
  if (!columns_.empty()) number = std::max(number, columns_.back().number + 1);
  for (; number < now_; ++number) {
    columns_.push_back(
        {number, version_, generation_, std::vector<uint8_t>(bytes.size(), kUntold)});
  }
}

// Writes the value into the columns before this one that its steps covered.
void HeatMap::Fill(size_t rank, uint8_t value) {
  const int64_t first = now_ - Covered(rank);
  for (auto column = columns_.rbegin(); column != columns_.rend(); ++column) {
    if (column->number < first || column->generation != generation_) return;
    if (column->ranks[rank] != kUntold) return;
    column->ranks[rank] = value;
    column->version = version_;
  }
}

}  // namespace paceline::diagnose
