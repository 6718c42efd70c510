#include "paceline/model/saved_step.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(SavedStep, TheOrderIsWorldThenBranchThenStep) {
  const SavedStep first{.generation = 1, .step = 9};
  const SavedStep back{.generation = 1, .step = 3, .branch = 1};
  const SavedStep next_world{.generation = 2, .step = 1};
  EXPECT_LT(first, back) << "the script went back";
  EXPECT_LT(back, next_world) << "a rank of an ended world is never the last";
  EXPECT_LT(back, (SavedStep{.generation = 1, .step = 4, .branch = 1}));
  EXPECT_NE(first, (SavedStep{.generation = 1, .step = 9, .branch = 1}));
}

TEST(SavedStep, ANameIsReadBack) {
  for (const SavedStep saved : {SavedStep{1, 4}, SavedStep{3, 1200, 7}}) {
    EXPECT_EQ(SavedStepIn(CheckpointNameOf(saved)), saved);
  }
  EXPECT_EQ(CheckpointNameOf({1, 4}), "step-4-g1");
  EXPECT_EQ(CheckpointNameOf({1, 4, 1}), "step-4-g1-b1");
}

TEST(SavedStep, WhatIsNoNameIsNotRead) {
  for (const char* name :
       {"", "step-", "step-4", "step-4-g", "step--4-g1", "step-4-g1-", "step-4-g1-b",
        "step-4-g1-b0", "step-4-g1-b1x", "step-4-g1x", "xstep-4-g1", "step-99999999999999999999-g1",
        "step-4-g99999999999999999999", ".removing-step-4-g1"}) {
    EXPECT_FALSE(SavedStepIn(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace paceline
