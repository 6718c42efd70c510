#pragma once

// For tests of desks, which sum up what ranks report: two nodes with two ranks each.

#include <gtest/gtest.h>

#include <string>

#include "paceline/core/job.h"

namespace paceline::core {

class TwoNodesTest : public ::testing::Test {
 protected:
  TwoNodesTest() {
    Apply({.seq = RecordSeq(1), .fact = JobCreated{}}, &state_);
    for (const uint32_t id : {1U, 2U}) {
      Apply({.seq = RecordSeq(1 + id),
             .fact = NodeJoined{.node = NodeId(id), .name = "n" + std::to_string(id), .slots = 2}},
            &state_);
    }
    Form(1);
  }
  void Form(uint64_t generation) {
    WorldFormed formed;
    formed.world.generation = Generation(generation);
    formed.world.seats = {{NodeId(1), 0, 2}, {NodeId(2), 2, 2}};
    Apply({.seq = RecordSeq(3 + generation), .fact = formed}, &state_);
  }

  JobState state_;
};

}  // namespace paceline::core
