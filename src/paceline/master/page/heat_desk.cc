#include "paceline/master/page/heat_desk.h"

#include <array>
#include <cstring>

#include "paceline/plan/json.h"

namespace paceline::master {
namespace {

constexpr std::array<char, 8> kMagic = {'P', 'L', 'H', 'E', 'A', 'T', '1', '\n'};
constexpr uint32_t kHasStages = 1;
constexpr uint32_t kIsPiped = 2;

// Little-endian, as all hosts that paceline runs on.
template <class Number>
void Append(Number number, std::string* text) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &number, sizeof(Number));
  text->append(bytes, sizeof(Number));
}

}  // namespace

std::vector<uint32_t> StagesOf(const std::string& plan, size_t ranks) {
  if (plan.empty()) return {};
  const auto read = plan::ReadPlan(plan);
  if (!read.ok() || read->stages.size() < 2) return {};
  // Ranks that the plan does not use make no steps.
  std::vector<uint32_t> stages(ranks, 0);
  for (uint32_t stage = 0; stage < read->stages.size(); ++stage) {
    for (const uint32_t rank : read->stages[stage].ranks) {
      if (rank >= ranks) return {};
      stages[rank] = stage;
    }
  }
  return stages;
}

void HeatDesk::Take(Instant now, const core::JobState& state, NodeId node,
                    const std::vector<RankSample>& samples) {
  if (!state.IsSeated(node)) return;
  Follow(state);
  const Seat& seat = state.SeatOf(*state.Find(node));
  for (const RankSample& sample : samples) {
    const uint32_t rank = sample.rank.value();
    if (rank < seat.first_rank || rank - seat.first_rank >= seat.rank_count) continue;
    map_.Take(now, sample);
  }
}

// Begins anew with a world, and learns its stages when its ranks have reported their plan.
void HeatDesk::Follow(const core::JobState& state) {
  const World& world = *state.world;
  if (map_.generation() != world.generation) {
    map_.Begin(world.generation, world.world_size());
    plan_.clear();
  }
  const bool has_plan = state.plan.has_value() && state.plan->generation == world.generation;
  if (!has_plan || state.plan->plan == plan_) return;
  plan_ = state.plan->plan;
  map_.SetStages(StagesOf(plan_, world.world_size()));
}

std::string HeatDesk::Encode(Instant now, uint64_t known) {
  map_.PassTime(now);
  if (known > map_.version()) known = 0;  // of another master, whose clock was ahead
  std::string columns;
  uint32_t count = 0;
  for (const diagnose::HeatMap::Column& column : map_.columns()) {
    if (column.version <= known) continue;
    ++count;
    Append(static_cast<uint32_t>(column.number), &columns);
    Append(static_cast<uint32_t>(WorldNumber(column.generation)), &columns);
    Append(static_cast<uint32_t>(column.ranks.size()), &columns);
    columns.append(reinterpret_cast<const char*>(column.ranks.data()), column.ranks.size());
  }
  std::string text(kMagic.data(), kMagic.size());
  Append(map_.version(), &text);
  Append(static_cast<uint32_t>(diagnose::HeatMap::kColumnSeconds), &text);
  Append((map_.has_stages() ? kHasStages : 0) | (map_.is_piped() ? kIsPiped : 0), &text);
  Append(static_cast<uint32_t>(diagnose::HeatMap::kColumns), &text);
  Append(count, &text);
  return text + columns;
}

}  // namespace paceline::master
