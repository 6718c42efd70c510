#include "paceline/agent/ranks/rank_world.h"

#include <algorithm>

#include "paceline/base/json.h"
#include "paceline/base/json_field.h"

namespace paceline::agent {
namespace {

using nlohmann::json;

constexpr size_t kAttemptBytesMax = 64;
constexpr uint32_t kRanksMax = 1 << 20;

// [host, first rank, ranks]; none if it does not continue behind the earlier seats.
std::optional<Seat> SeatIn(const json& one, uint32_t first_rank) {
  if (!one.is_array() || one.size() != 3) return std::nullopt;
  for (const json& number : one) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > kRanksMax) return std::nullopt;
  }
  const Seat seat{NodeId(one[0].get<uint32_t>() + 1), one[1].get<uint32_t>(),
                  one[2].get<uint32_t>()};
  const bool goes_on = seat.first_rank == first_rank && seat.rank_count > 0;
  return goes_on ? std::optional(seat) : std::nullopt;
}

}  // namespace

std::optional<RankWorld> RankWorldIn(const json& open) {
  RankWorld world{.attempt = "", .seats = {{NodeId(1), 0, 1}}};
  world.generation = JsonInt<uint64_t>(open, "generation", 0);
  if (open.contains("in_directory")) {
    world.in_directory = SavedStepIn(JsonText(open, "in_directory")).value_or(SavedStep{});
  }
  const auto said = open.find("world");
  if (said == open.end()) return world;
  if (!said->is_object()) return std::nullopt;
  world.seats.clear();
  world.attempt = JsonText(*said, "attempt");
  world.host = JsonInt<uint32_t>(*said, "host");
  world.hosts = 0;
  world.join = JsonText(*said, "join");
  world.address = JsonText(*said, "address");
  const auto seats = said->find("seats");
  if (seats == said->end() || !seats->is_array()) return std::nullopt;
  uint32_t ranks = 0;
  for (const json& one : *seats) {
    const std::optional<Seat> seat = SeatIn(one, ranks);
    if (!seat.has_value() || ranks + seat->rank_count > kRanksMax) return std::nullopt;
    ranks += seat->rank_count;
    world.hosts = std::max(world.hosts, static_cast<uint32_t>(seat->node.value()));
    world.seats.push_back(*seat);
  }
  const bool is_named = !world.attempt.empty() && world.attempt.size() <= kAttemptBytesMax;
  if (!is_named || world.seats.empty() || world.host >= world.hosts) return std::nullopt;
  return world;
}

ProcessId LauncherIn(const json& open) {
  const auto said = open.find("launcher");
  if (said == open.end() || !said->is_object()) return {};
  return {.pid = JsonInt<int32_t>(*said, "pid"),
          .start_time_ticks = JsonInt<uint64_t>(*said, "start")};
}

}  // namespace paceline::agent
