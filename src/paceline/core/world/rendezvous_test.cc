#include "paceline/core/world/rendezvous.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace paceline::core {
namespace {

Candidate Offer(uint32_t id, uint32_t slots = 2) {
  return {.node = NodeId(id), .name = "n" + std::to_string(id), .slots = slots, .troubles = 0};
}

std::vector<uint32_t> Ids(const std::vector<Candidate>& nodes) {
  std::vector<uint32_t> ids;
  for (const Candidate& node : nodes) ids.push_back(node.node.value());
  return ids;
}

using V = std::vector<uint32_t>;

TEST(RendezvousTest, FirstWorldGoesByName) {
  EXPECT_EQ(Ids(PlanSeats({}, {Offer(10), Offer(2), Offer(1)}, {1, 3, 1})), V({1, 2, 10}));
}

TEST(RendezvousTest, ReplacementTakesTheHole) {
  const auto last = NumberSeats({Offer(1), Offer(2), Offer(3)});
  EXPECT_EQ(Ids(PlanSeats(last, {Offer(1), Offer(3), Offer(4)}, {1, 3, 1})), V({1, 4, 3}));
}

TEST(RendezvousTest, OnlySeatsAboveTheNewSizeMove) {
  const auto last = NumberSeats({Offer(1), Offer(2), Offer(3), Offer(4)});
  EXPECT_EQ(Ids(PlanSeats(last, {Offer(2), Offer(3), Offer(4)}, {1, 4, 1})), V({4, 2, 3}));
}

TEST(RendezvousTest, ASpareOfTheSameSizeIsPreferred) {
  const auto last = NumberSeats({Offer(1, 2), Offer(2, 4)});
  EXPECT_EQ(Ids(PlanSeats(last, {Offer(1, 2), Offer(3, 2), Offer(5, 4)}, {1, 2, 1})), V({1, 5}));
}

TEST(RendezvousTest, TroubledNodesComeLast) {
  Candidate troubled = Offer(1);
  troubled.troubles = 1;
  EXPECT_EQ(Ids(PlanSeats({}, {troubled, Offer(2), Offer(3)}, {1, 2, 1})), V({2, 3}));
}

TEST(RendezvousTest, UnevenSlotsAreNumberedThrough) {
  const auto seats = NumberSeats({Offer(1, 2), Offer(2, 3), Offer(3, 1)});
  EXPECT_EQ(seats[1].first_rank, 2U);
  EXPECT_EQ(seats[2].first_rank, 5U);
}

TEST(RendezvousTest, SizeIsAMultipleOfTheUnitWithinBounds) {
  EXPECT_EQ(WorldSize({2, 8, 2}, 7), 6U);
  EXPECT_EQ(WorldSize({2, 8, 2}, 20), 8U);
  EXPECT_EQ(WorldSize({4, 8, 2}, 3), 0U);
  EXPECT_EQ(WorldSize({1, 4, 1}, 0), 0U);
}

// Every world of up to 4 nodes, every set of survivors, every number of spares.
TEST(RendezvousTest, KeepsItsRulesInAllSmallWorlds) {
  for (uint32_t before = 1; before <= 4; ++before) {
    std::vector<Candidate> old;
    for (uint32_t i = 1; i <= before; ++i) old.push_back(Offer(i));
    const auto last = NumberSeats(old);
    for (uint32_t mask = 0; mask < (1U << before); ++mask) {
      for (uint32_t spares = 0; spares <= 3; ++spares) {
        for (uint32_t max = 1; max <= 5; ++max) {
          std::vector<Candidate> candidates;
          for (uint32_t i = 0; i < before; ++i) {
            if ((mask >> i & 1U) != 0) candidates.push_back(old[i]);
          }
          for (uint32_t i = 0; i < spares; ++i) candidates.push_back(Offer(10 + i));
          const WorldBounds bounds{1, max, 1};
          const V ids = Ids(PlanSeats(last, candidates, bounds));
          ASSERT_EQ(ids.size(), WorldSize(bounds, candidates.size()));
          V unique = ids;
          std::sort(unique.begin(), unique.end());
          ASSERT_EQ(std::unique(unique.begin(), unique.end()), unique.end());
          for (uint32_t i = 0; i < before && i < ids.size(); ++i) {
            if ((mask >> i & 1U) != 0) {
              ASSERT_EQ(ids[i], i + 1) << "a survivor keeps its seat";
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::core
