#include "paceline/data/batch_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "paceline/base/prng.h"

namespace paceline {
namespace {

BatchCut Make(const BatchSpec& spec) {
  Result<BatchCut> cut = BatchCut::Make(spec);
  EXPECT_TRUE(cut.ok()) << (cut.ok() ? "" : cut.failure().message);
  return std::move(*cut);
}

OrdinalRange ShareOf(const BatchCut& cut, OrdinalRange step, uint64_t rank) {
  return CutEvenly(step, {.number = rank, .of = cut.spec().world_size});
}

TEST(BatchCutTest, PartsTileTheWholeAndDifferByOneAtMost) {
  for (uint64_t size = 0; size <= 40; ++size) {
    for (uint64_t of = 1; of <= 12; ++of) {
      uint64_t at = 100;
      for (uint64_t number = 0; number < of; ++number) {
        const OrdinalRange part = CutEvenly({100, 100 + size}, {.number = number, .of = of});
        EXPECT_EQ(part.begin, at);
        EXPECT_GE(part.size(), size / of);
        EXPECT_LE(part.size(), (size + of - 1) / of);
        at = part.end;
      }
      EXPECT_EQ(at, 100 + size);
    }
  }
}

// What a step reads does not depend on the world, and an epoch reads every ordinal once.
TEST(BatchCutTest, AStepIsTheSameSetInEveryWorld) {
  Prng prng(11);
  for (int round = 0; round < 300; ++round) {
    const uint64_t batch = 1 + prng.Below(40);
    const uint64_t samples = 1 + prng.Below(400);
    for (uint64_t world = 1; world <= 6; ++world) {
      const Result<BatchCut> made =
          BatchCut::Make({.samples = samples, .global_batch = batch, .world_size = world});
      if (!made.ok()) continue;
      uint64_t consumed = 0;
      uint64_t steps = 0;
      while (made->StepsFrom(consumed) > 0) {
        const OrdinalRange step = made->StepAt(consumed);
        EXPECT_EQ(step.begin, steps * batch);
        EXPECT_EQ(step.end, std::min(samples, (steps + 1) * batch));
        for (uint64_t rank = 0; rank < world; ++rank) {
          EXPECT_GE(ShareOf(*made, step, rank).size(), 1u);
        }
        EXPECT_EQ(ShareOf(*made, step, world - 1).end, step.end);
        consumed = step.end;
        ++steps;
      }
      EXPECT_EQ(consumed, samples);
      EXPECT_EQ(steps, made->StepsFrom(0));
    }
  }
}

// The world and the size of a step change in every step; no ordinal is skipped.
TEST(BatchCutTest, AnythingMayChangeBetweenTwoSteps) {
  Prng prng(5);
  for (int round = 0; round < 300; ++round) {
    const uint64_t samples = 50 + prng.Below(500);
    std::vector<int> times(samples);
    uint64_t consumed = 0;
    while (consumed < samples) {
      const uint64_t world = 1 + prng.Below(8);
      const BatchSpec spec{.samples = samples,
                           .global_batch = world + prng.Below(30),
                           .world_size = world,
                           .micro_batch = 2 + prng.Below(3),
                           .even_steps = false};
      const BatchCut cut = Make(spec);
      const OrdinalRange step = cut.StepAt(consumed);
      for (uint64_t rank = 0; rank < world; ++rank) {
        const OrdinalRange share = ShareOf(cut, step, rank);
        for (uint64_t part = 0; part < cut.PartsOf(step); ++part) {
          const OrdinalRange one = CutEvenly(share, {.number = part, .of = cut.PartsOf(step)});
          EXPECT_LE(one.size(), spec.micro_batch);
          for (uint64_t ordinal = one.begin; ordinal < one.end; ++ordinal) ++times[ordinal];
        }
      }
      consumed = step.end;
    }
    EXPECT_EQ(std::count(times.begin(), times.end(), 1), static_cast<long>(samples));
  }
}

TEST(BatchCutTest, MicroBatchesAreNeverEmpty) {
  for (uint64_t world = 1; world <= 6; ++world) {
    for (uint64_t batch = 1; batch <= 40; ++batch) {
      for (uint64_t micro = 1; micro <= 9; ++micro) {
        const Result<BatchCut> cut = BatchCut::Make({.samples = 3 * batch,
                                                     .global_batch = batch,
                                                     .world_size = world,
                                                     .micro_batch = micro});
        if (!cut.ok()) continue;
        const OrdinalRange step = cut->StepAt(0);
        for (uint64_t rank = 0; rank < world; ++rank) {
          for (uint64_t part = 0; part < cut->PartsOf(step); ++part) {
            const Part one{.number = part, .of = cut->PartsOf(step)};
            EXPECT_GE(CutEvenly(ShareOf(*cut, step, rank), one).size(), 1u);
          }
        }
      }
    }
  }
}

TEST(BatchCutTest, DropLastLeavesOutWhatFillsNoStep) {
  const BatchCut cut =
      Make({.samples = 23, .global_batch = 10, .world_size = 4, .drop_last = true});
  EXPECT_EQ(cut.StepsFrom(0), 2u);
  EXPECT_EQ(cut.StepsFrom(15), 0u);
  EXPECT_EQ(cut.StepAt(20).size(), 0u);
}

std::string Refusal(const BatchSpec& spec) {
  const Result<BatchCut> cut = BatchCut::Make(spec);
  return cut.ok() ? "" : cut.failure().message;
}

TEST(BatchCutTest, RefusesWhatWouldLeaveARankWithoutSamples) {
  EXPECT_EQ(Refusal({.samples = 100, .global_batch = 3, .world_size = 4}),
            "a step of 3 samples is too small for 4 ranks");
  EXPECT_EQ(Refusal({.samples = 103, .global_batch = 20, .world_size = 4}),
            "the last step of the epoch has 3 samples, too few for 4 ranks");
  EXPECT_EQ(Refusal({.samples = 103, .global_batch = 20, .world_size = 4, .drop_last = true}), "");
  EXPECT_EQ(Refusal({.samples = 103, .global_batch = 20, .world_size = 4, .even_steps = false}),
            "");
  EXPECT_EQ(Refusal({.samples = 19, .global_batch = 20, .world_size = 4, .drop_last = true}),
            "an epoch of 19 samples has no whole step of 20");
  EXPECT_NE(Refusal({.samples = 0, .global_batch = 20}), "");
  EXPECT_NE(Refusal({.samples = 10, .global_batch = 0}), "");
  EXPECT_NE(Refusal({.samples = 10, .global_batch = 5, .world_size = 2, .micro_batch = 1}), "");
}

TEST(BatchCutTest, AnEpochMayGoOnWithStepsOfAnotherSize) {
  const BatchCut cut = Make({.samples = 100, .global_batch = 10, .world_size = 4});
  EXPECT_TRUE(cut.CheckFrom(40).ok());
  EXPECT_FALSE(cut.CheckFrom(49).ok()) << "one sample would be left for four ranks";
}

}  // namespace
}  // namespace paceline
