#pragma once

// A node's station machine, with its last actions.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/checkpoint/station_machine.h"

namespace paceline::core {

inline constexpr SavedStep kSavedStep{3, 40};

class StationTest : public ::testing::Test {
 protected:
  void Step(const StationEvent& event) {
    actions_ = machine_.Step(now_, event);
    for (const StationAction& action : actions_) {
      if (const auto* sent = std::get_if<SendReport>(&action)) reports_.push_back(sent->report);
    }
  }
  template <class Action>
  std::vector<Action> Got() const {
    std::vector<Action> found;
    for (const StationAction& action : actions_) {
      if (const auto* one = std::get_if<Action>(&action)) found.push_back(*one);
    }
    return found;
  }
  // A rank of world 3 opens, and storage was looked at.
  void Open() {
    Step(GenerationCarriedOut{Generation(3)});
    ASSERT_FALSE(machine_.Refuses(0, 3, terms_).has_value());
    Step(RankOpened{1, 0, 3});
    Step(StorageLooked{});
  }
  void Report() {
    now_ = now_ + Duration::Seconds(1);
    Step(ReportDue{images_});
  }
  static CheckpointOrder Persist() {
    CheckpointOrder order;
    order.persist =
        PersistOrder{.saved = kSavedStep, .world_size = 1, .name = "step-40-g3", .shards = {{}}};
    return order;
  }

  CheckpointTerms terms_{.directory = "/d", .keep = 2, .policy = {}};
  StationMachine machine_{{"n1", Duration::Milliseconds(250)}};
  Instant now_ = Instant::FromNanoseconds(1);
  std::vector<StationAction> actions_;
  std::vector<CheckpointReport> reports_;
  std::vector<MemoryImage> images_;
};

}  // namespace paceline::core
