#include "paceline/core/agent.h"

#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::core {
namespace {

Instant At(int64_t ms) { return Instant() + Duration::Milliseconds(ms); }

Assignment RunOrder(uint64_t generation) {
  Assignment assignment;
  assignment.kind = Assignment::Kind::kRun;
  assignment.generation = Generation(generation);
  assignment.seat_count = assignment.rank_count = assignment.world_size = 1;
  return assignment;
}

template <class Action>
size_t Count(const std::vector<AgentAction>& actions) {
  size_t count = 0;
  for (const AgentAction& action : actions) count += std::holds_alternative<Action>(action);
  return count;
}

// An agent whose one rank was ordered; the port is let go.
AgentMachine Ordered() {
  AgentMachine machine{JobSpec{}};
  machine.Step(At(0), StorePortHeld{20'000});
  machine.Step(At(0), MasterLinked{});
  machine.Step(At(1), StarterReady{});
  machine.Step(At(2), AssignmentReceived{RunOrder(1)});
  return machine;
}

TEST(AgentMachine, HoldsAnotherPortWhenRankZeroCannotBeStarted) {
  AgentMachine machine = Ordered();
  size_t held = 0;
  size_t reported = 0;
  for (int i = 0; i < 3; ++i) {
    const auto actions = machine.Step(At(3 + i), SpawnFailed{0, Generation(1), "no memory"});
    held += Count<HoldStorePort>(actions);
    reported += Count<ReportRankExit>(actions);
  }
  EXPECT_EQ(reported, 1u);
  EXPECT_EQ(held, 1u);
}

TEST(AgentMachine, FailsItsRanksWhenNoStarterCanBeHad) {
  AgentMachine machine{JobSpec{}};
  machine.Step(At(0), StorePortHeld{20'000});
  machine.Step(At(0), MasterLinked{});
  EXPECT_EQ(Count<StartStarter>(machine.Step(At(1), AssignmentReceived{RunOrder(1)})), 1u);
  size_t reported = 0;
  for (int i = 0; i < 3; ++i) {
    reported += Count<ReportRankExit>(machine.Step(At(2 + i), StarterLost{"no interpreter"}));
  }
  EXPECT_EQ(reported, 1u);
  ASSERT_EQ(machine.Ranks().size(), 1u);
  EXPECT_EQ(machine.Ranks()[0].exit.kind, ExitCause::Kind::kNotStarted);
  EXPECT_EQ(machine.Ranks()[0].exit.headline, "no interpreter");
}

TEST(AgentMachine, HoldsAnotherPortWhenAWorldEndsBeforeItStarted) {
  AgentMachine machine{JobSpec{}};
  machine.Step(At(0), StorePortHeld{20'000});
  machine.Step(At(0), MasterLinked{});
  machine.Step(At(1), AssignmentReceived{RunOrder(1)});  // the starter is not ready yet
  Assignment idle;
  idle.generation = Generation(1);
  EXPECT_EQ(Count<HoldStorePort>(machine.Step(At(2), AssignmentReceived{idle})), 1u);
}

TEST(AgentMachine, LeavesNoDeadlineBehindAfterTheKill) {
  AgentMachine machine = Ordered();
  machine.Step(At(3), RankSpawned{0, Generation(1), 77});
  machine.Step(At(4), LeaveAsked{"Ctrl-C", Duration::Milliseconds(10), 130, false});
  machine.Step(At(14), AgentTimePassed{});  // the grace is over: SIGKILL
  Assignment leave;
  leave.kind = Assignment::Kind::kLeave;
  leave.generation = Generation(1);
  machine.Step(At(15), AssignmentReceived{leave});
  EXPECT_GT(machine.NextDeadline(), At(15));
}

}  // namespace
}  // namespace paceline::core
