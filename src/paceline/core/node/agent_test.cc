#include "paceline/core/node/agent.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

#include "paceline/core/signal_number.h"
#include "paceline/core/test_times.h"

namespace paceline::core {
namespace {

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

// An agent with an order for one rank; the port is released.
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

// A new master hears how long ago a rank ended; a look in between does not change the report.
TEST(AgentMachine, TellsARegistrationSinceWhenARankIsDead) {
  AgentMachine machine = Ordered();
  machine.Step(At(3), RankSpawned{0, Generation(1), 77});
  machine.Step(At(4), MasterUnlinked{"reset"});
  ExitCause killed;
  killed.kind = ExitCause::Kind::kSignaled;
  machine.Step(At(1000), RankEnded{0, Generation(1), 77, killed, At(1000) - At(900)});
  ASSERT_EQ(machine.RanksAt(At(5900)).size(), 1u);
  EXPECT_EQ(machine.RanksAt(At(5900))[0].ended_for, At(5900) - At(900));
  EXPECT_EQ(machine.Ranks()[0].ended_for, Duration());
}

// Measured on Ray: a spare on a host of its own took five seconds longer than one beside others,
// because its starter began to import only when the spare got a seat.
TEST(AgentMachine, ASpareHasItsStarterBeforeItIsNeeded) {
  AgentMachine machine{JobSpec{}};
  machine.Step(At(0), StorePortHeld{20'000});
  EXPECT_EQ(Count<StartStarter>(machine.Step(At(0), AgentTimePassed{})), 0u)
      << "nobody has taken it yet";
  EXPECT_EQ(Count<StartStarter>(machine.Step(At(0), MasterLinked{})), 1u);
  Assignment idle;
  idle.generation = Generation(1);
  EXPECT_EQ(Count<StartStarter>(machine.Step(At(1), AssignmentReceived{idle})), 0u);
  EXPECT_EQ(Count<StartStarter>(machine.Step(At(2), StarterReady{})), 0u);
  EXPECT_EQ(Count<StartStarter>(machine.Step(At(3), StarterLost{"its socket closed"})), 1u);
  machine.Step(At(4), StarterReady{});
  const auto actions = machine.Step(At(5), AssignmentReceived{RunOrder(2)});
  EXPECT_EQ(Count<StartStarter>(actions), 0u);
  EXPECT_EQ(Count<SpawnRank>(actions), 1u);
  Assignment leave;
  leave.kind = Assignment::Kind::kLeave;
  EXPECT_EQ(Count<StartStarter>(machine.Step(At(6), AssignmentReceived{leave})), 0u);
}

// Checks measure the host, so no rank may disturb them.
TEST(AgentMachine, RepeatsChecksOnceWhenItsRanksAreGone) {
  AgentMachine machine = Ordered();
  machine.Step(At(3), RankSpawned{0, Generation(1), 77});
  Assignment idle;
  idle.generation = Generation(2);
  idle.check_round = 1;
  EXPECT_EQ(Count<RunChecks>(machine.Step(At(4), AssignmentReceived{idle})), 0u);
  ExitCause killed;
  killed.kind = ExitCause::Kind::kSignaled;
  EXPECT_EQ(Count<RunChecks>(machine.Step(At(5), RankEnded{0, Generation(1), 77, killed})), 1u);
  EXPECT_EQ(Count<RunChecks>(machine.Step(At(6), AssignmentReceived{idle})), 0u);
  idle.check_round = 2;
  EXPECT_EQ(Count<RunChecks>(machine.Step(At(7), AssignmentReceived{idle})), 1u);
}

TEST(AgentMachine, FailsItsRanksWhenNoStarterCanBeHad) {
  AgentMachine machine{JobSpec{}};
  machine.Step(At(0), StorePortHeld{20'000});
  EXPECT_EQ(Count<StartStarter>(machine.Step(At(0), MasterLinked{})), 1u);
  machine.Step(At(1), AssignmentReceived{RunOrder(1)});
  size_t reported = 0;
  for (int i = 0; i < 3; ++i) {
    reported += Count<ReportRankExit>(machine.Step(At(2 + i), StarterLost{"no interpreter"}));
  }
  EXPECT_EQ(reported, 1u);
  ASSERT_EQ(machine.Ranks().size(), 1u);
  EXPECT_EQ(machine.Ranks()[0].exit.kind, ExitCause::Kind::kNotStarted);
  EXPECT_EQ(machine.Ranks()[0].exit.headline, "no interpreter");
}

// Found by real crashes: a start that the former starter never answered occupied its slot for ever,
// and the node was lost a minute later.
TEST(AgentMachine, AFreshStarterOwesNoAnswersOfTheFormerOne) {
  AgentMachine machine = Ordered();
  Assignment next = RunOrder(2);
  next.fresh_starter = true;
  const auto actions = machine.Step(At(3), AssignmentReceived{next});
  EXPECT_EQ(Count<StartStarter>(actions), 1u);
  EXPECT_EQ(Count<ReportRankExit>(actions), 1u) << "the master was told that it starts";
  EXPECT_EQ(Count<SpawnRank>(machine.Step(At(4), StarterReady{})), 1u);
}

// Found by the simulator: the master was told that the rank starts, and then lost the node for its
// silence. The start failed when it was no longer wanted, and the node was never accepted again.
TEST(AgentMachine, TellsTheEndOfAStartThatNobodyWantsAnyMore) {
  AgentMachine machine = Ordered();
  Assignment idle;
  idle.generation = Generation(1);
  machine.Step(At(3), AssignmentReceived{idle});
  ASSERT_EQ(machine.Ranks().size(), 1u);
  EXPECT_EQ(Count<ReportRankExit>(machine.Step(At(4), StarterLost{"its socket closed"})), 1u);
  ASSERT_EQ(machine.Ranks().size(), 1u);
  EXPECT_EQ(machine.Ranks()[0].state, RankReport::State::kExited);
  EXPECT_TRUE(machine.Ranks()[0].exit.asked);
}

// Found by the simulator (seed 1349306): the start had failed once, and the order changed before
// the next try. The master waited for the rank's end for ever.
TEST(AgentMachine, TellsTheEndOfAStartThatIsNotTriedAgain) {
  AgentMachine machine = Ordered();
  EXPECT_EQ(Count<ReportRankExit>(machine.Step(At(3), StarterLost{"its socket closed"})), 0u);
  Assignment idle;
  idle.generation = Generation(9);
  EXPECT_EQ(Count<ReportRankExit>(machine.Step(At(4), AssignmentReceived{idle})), 1u);
  ASSERT_EQ(machine.Ranks().size(), 1u);
  EXPECT_EQ(machine.Ranks()[0].generation, Generation(1));
  EXPECT_EQ(machine.Ranks()[0].state, RankReport::State::kExited);
  idle.generation = Generation(10);
  EXPECT_EQ(Count<ReportRankExit>(machine.Step(At(5), AssignmentReceived{idle})), 0u);
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

std::vector<int> SignalsIn(const std::vector<AgentAction>& actions) {
  std::vector<int> signals;
  for (const AgentAction& action : actions) {
    if (const auto* sent = std::get_if<SignalRank>(&action)) signals.push_back(sent->signal);
  }
  return signals;
}

// As torchrun does: Ctrl-C is a KeyboardInterrupt in the script, and the next signal is SIGKILL,
// because SIGTERM would end Python in the middle of its save.
TEST(AgentMachine, HandsOnTheSignalThatCameAndThenSigkill) {
  AgentMachine machine = Ordered();
  machine.Step(At(3), RankSpawned{0, Generation(1), 77});
  Assignment leave;
  leave.kind = Assignment::Kind::kLeave;
  leave.generation = Generation(1);
  leave.grace = Duration::Milliseconds(100);
  leave.signal = kSigint;
  EXPECT_EQ(SignalsIn(machine.Step(At(4), AssignmentReceived{leave})), std::vector{kSigint});
  EXPECT_EQ(SignalsIn(machine.Step(At(50), AgentTimePassed{})), std::vector<int>{});
  EXPECT_EQ(SignalsIn(machine.Step(At(104), AgentTimePassed{})), std::vector{kSigkill});
}

TEST(AgentMachine, AnEndByASignalThatWasHandedOnWasAskedFor) {
  AgentMachine machine = Ordered();
  machine.Step(At(2), MasterLinked{});
  machine.Step(At(3), RankSpawned{0, Generation(1), 77});
  const LeaveAsked asked{.why = "Ctrl-C", .grace = Duration::Seconds(1), .signal = kSigint};
  EXPECT_EQ(SignalsIn(machine.Step(At(4), asked)), std::vector{kSigint});
  ExitCause cause;
  cause.kind = ExitCause::Kind::kExited;
  cause.code = 1;
  cause.headline = "KeyboardInterrupt";
  machine.Step(At(5), RankEnded{0, Generation(1), 77, cause});
  EXPECT_TRUE(machine.Ranks()[0].exit.asked);
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

// Its one rank runs.
AgentMachine Running(Assignment order = RunOrder(1)) {
  AgentMachine machine{JobSpec{}};
  machine.Step(At(0), StorePortHeld{20'000});
  machine.Step(At(0), MasterLinked{});
  machine.Step(At(1), StarterReady{});
  machine.Step(At(2), AssignmentReceived{std::move(order)});
  machine.Step(At(3), RankSpawned{0, Generation(1), 77});
  machine.Step(At(4), StorePortHeld{20'001});
  return machine;
}

RankEnded Killed(uint64_t generation, int32_t pid) {
  RankEnded ended{0, Generation(generation), pid, {}};
  ended.cause.kind = ExitCause::Kind::kSignaled;
  ended.cause.code = 9;
  return ended;
}

Assignment Granted() {
  Assignment order = RunOrder(1);
  order.solo_first = Generation(2);
  order.solo_last = Generation(65);
  return order;
}

std::optional<int> SignalSent(const std::vector<AgentAction>& actions) {
  for (const AgentAction& action : actions) {
    if (const auto* signal = std::get_if<SignalRank>(&action)) return signal->signal;
  }
  return std::nullopt;
}

TEST(AgentMachine, KillsAnOlderRankAtOnceAndStartsTheNextOneInItsEmptyPlace) {
  AgentMachine machine = Running();
  const auto told = machine.Step(At(10), AssignmentReceived{RunOrder(2)});
  EXPECT_EQ(SignalSent(told), 9);
  EXPECT_EQ(Count<SpawnRank>(told), 0u);
  const auto ended = machine.Step(At(11), Killed(1, 77));
  EXPECT_EQ(Count<SpawnRank>(ended), 1u);
  machine.Step(At(12), RankSpawned{0, Generation(2), 78});
  EXPECT_EQ(machine.carried_out(), Generation(2));
}

TEST(AgentMachine, ALateStartHasItsRankOfTheWorldThatAskedForIt) {
  AgentMachine machine = Ordered();
  machine.Step(At(2), MasterLinked{});
  Assignment next = RunOrder(2);
  next.first_rank = 4;
  machine.Step(At(3), AssignmentReceived{next});
  ASSERT_EQ(machine.Ranks().size(), 1u);
  EXPECT_EQ(machine.Ranks()[0].rank, Rank(0));
  machine.Step(At(4), RankSpawned{0, Generation(1), 77});
  ASSERT_EQ(machine.Ranks().size(), 1u);
  EXPECT_EQ(machine.Ranks()[0].generation, Generation(1));
  EXPECT_EQ(machine.Ranks()[0].rank, Rank(0));
}

TEST(AgentMachine, IgnoresAnOrderOfThePast) {
  AgentMachine machine = Running(RunOrder(1));
  machine.Step(At(10), AssignmentReceived{RunOrder(3)});
  machine.Step(At(11), Killed(1, 77));
  machine.Step(At(12), RankSpawned{0, Generation(3), 78});
  EXPECT_EQ(SignalSent(machine.Step(At(13), AssignmentReceived{RunOrder(2)})), std::nullopt);
  EXPECT_EQ(machine.assignment().generation, Generation(3));
}

TEST(AgentMachine, GivesItsRanksTheGraceWhenTheJobEnds) {
  AgentMachine machine = Running();
  Assignment leave;
  leave.kind = Assignment::Kind::kLeave;
  leave.generation = Generation(1);
  leave.grace = Duration::Seconds(5);
  EXPECT_EQ(SignalSent(machine.Step(At(10), AssignmentReceived{leave})), 15);
  EXPECT_EQ(machine.NextDeadline(), At(5010));
  EXPECT_EQ(SignalSent(machine.Step(At(5010), AgentTimePassed{})), 9);
  EXPECT_EQ(Count<ExitAgent>(machine.Step(At(5011), Killed(1, 77))), 1u);
}

TEST(AgentMachine, RestartsAloneOnlyWithoutAMasterAndWithinItsGrant) {
  AgentMachine linked = Running(Granted());
  EXPECT_EQ(Count<SpawnRank>(linked.Step(At(10), Killed(1, 77))), 0u);
  AgentMachine ungranted = Running();
  ungranted.Step(At(9), MasterUnlinked{"gone"});
  EXPECT_EQ(Count<SpawnRank>(ungranted.Step(At(10), Killed(1, 77))), 0u);
  AgentMachine alone = Running(Granted());
  alone.Step(At(9), MasterUnlinked{"gone"});
  EXPECT_EQ(Count<SpawnRank>(alone.Step(At(10), Killed(1, 77))), 1u);
  EXPECT_EQ(alone.assignment().generation, Generation(2));
}

TEST(AgentMachine, StopsRestartingAloneWithoutProgress) {
  AgentMachine machine = Running(Granted());
  machine.Step(At(9), MasterUnlinked{"gone"});
  uint64_t generation = 1;
  size_t spawned = 0;
  for (int32_t pid = 77; pid < 87; ++pid) {
    const auto ended = machine.Step(At(10 * pid), Killed(generation, pid));
    if (Count<SpawnRank>(ended) == 0) break;
    ++spawned;
    machine.Step(At(10 * pid + 1), RankSpawned{0, Generation(++generation), pid + 1});
    machine.Step(At(10 * pid + 2), StorePortHeld{30'000});
  }
  EXPECT_EQ(spawned, 3u);
}

// An agent that ends before the ranks of its own world run must not lose the world's number, or the
// master would give it out again.
TEST(AgentMachine, HandsTheNumberThatItGaveItselfToTheNextAgent) {
  AgentMachine alone = Running(Granted());
  alone.Step(At(9), MasterUnlinked{"gone"});
  alone.Step(At(10), Killed(1, 77));
  EXPECT_EQ(alone.carried_out(), Generation(1));
  EXPECT_EQ(alone.newest_used(), Generation(2));
  AgentMachine machine(JobSpec{}, alone.newest_used());
  EXPECT_EQ(machine.carried_out(), Generation(2));
  machine.Step(At(1), StorePortHeld{30'000});
  machine.Step(At(2), StarterReady{});
  machine.Step(At(3), AssignmentReceived{RunOrder(3)});
  machine.Step(At(4), RankSpawned{0, Generation(3), 77});
  EXPECT_EQ(machine.carried_out(), Generation(3));
}

// The master numbered its next world from the block, but the agent had already used that number.
TEST(AgentMachine, KeepsWhatItMadeAloneWhenTheMasterNamesTheSameWorld) {
  AgentMachine machine = Running(Granted());
  machine.Step(At(9), MasterUnlinked{"gone"});
  machine.Step(At(10), Killed(1, 77));
  machine.Step(At(11), RankSpawned{0, Generation(2), 78});
  machine.Step(At(12), MasterLinked{});
  const auto told = machine.Step(At(13), AssignmentReceived{RunOrder(2)});
  EXPECT_EQ(SignalSent(told), std::nullopt);
  EXPECT_EQ(Count<SpawnRank>(told), 0u);
}

TEST(AgentMachine, GivesUpAfterItsTimeWithoutAMaster) {
  AgentMachine machine = Running();
  const Timers timers;
  machine.Step(At(1000), MasterUnlinked{"gone"});
  const Instant due = At(1000) + timers.orphan_after;
  EXPECT_EQ(machine.NextDeadline(), due);
  EXPECT_EQ(SignalSent(machine.Step(due, AgentTimePassed{})), 15);
  EXPECT_EQ(SignalSent(machine.Step(due + timers.stop_grace, AgentTimePassed{})), 9);
  const auto ended = machine.Step(due + timers.stop_grace, Killed(1, 77));
  ASSERT_EQ(Count<ExitAgent>(ended), 1u);
  for (const AgentAction& action : ended) {
    const auto* exit = std::get_if<ExitAgent>(&action);
    if (exit != nullptr) {
      EXPECT_EQ(exit->exit_code, 3);
    }
  }
}

// Found by the simulator (seed 14786): the master died while the job's last step was being written
// to storage. All agents had been told to leave and left at once, so no agent was there to write it
// under the next master.
TEST(AgentMachine, HopesForAnotherMasterWhenItWasToldToLeave) {
  AgentMachine machine = Running();
  Assignment leave;
  leave.kind = Assignment::Kind::kLeave;
  leave.generation = Generation(1);
  machine.Step(At(10), AssignmentReceived{leave});
  ASSERT_EQ(Count<ExitAgent>(machine.Step(At(11), Killed(1, 77))), 1u);
  EXPECT_TRUE(machine.HasHope(At(100'000))) << "it has a master";
  EXPECT_TRUE(machine.NextDeadline().is_max());
  machine.Step(At(1000), MasterUnlinked{"gone"});
  const Timers timers;
  EXPECT_EQ(machine.NextDeadline(), At(1000) + timers.orphan_after);
  EXPECT_TRUE(machine.HasHope(At(1001)));
  EXPECT_FALSE(machine.HasHope(machine.NextDeadline()));
  machine.Step(At(1005), MasterLinked{});
  machine.Step(At(1010), MasterUnlinked{"gone"});
  EXPECT_TRUE(machine.HasHope(At(1000) + timers.orphan_after)) << "counted anew";
  AgentMachine refused = machine;
  refused.Step(At(1011), MasterRefused{"another host has its name", 4});
  EXPECT_FALSE(refused.HasHope(At(1011)));
  EXPECT_TRUE(refused.NextDeadline().is_max());
  machine.Step(At(1011), LeaveAsked{"SIGTERM", Duration(), 143});
  EXPECT_FALSE(machine.HasHope(At(1011))) << "its host wants it to end";
}

TEST(AgentMachine, ExitsWhenItIsRefusedAndHoldsNoRanks) {
  AgentMachine machine{JobSpec{}};
  machine.Step(At(0), StorePortHeld{20'000});
  const auto refused = machine.Step(At(1), MasterRefused{"another host has its name", 4});
  ASSERT_EQ(Count<ExitAgent>(refused), 1u);
  EXPECT_EQ(std::get<ExitAgent>(refused.back()).exit_code, 4);
  EXPECT_EQ(std::get<ExitAgent>(refused.back()).reason, "another host has its name");
}

TEST(AgentMachine, LeavesItsRanksAloneWhenItIsRefusedAndStartsNoneAnew) {
  AgentMachine machine = Running(Granted());
  machine.Step(At(9), MasterUnlinked{"gone"});
  const auto refused = machine.Step(At(10), MasterRefused{"another host has its name", 4});
  EXPECT_EQ(SignalSent(refused), std::nullopt);
  EXPECT_EQ(Count<ExitAgent>(refused), 0u);
  const auto ended = machine.Step(At(11), Killed(1, 77));
  EXPECT_EQ(Count<SpawnRank>(ended), 0u);
  EXPECT_EQ(Count<ExitAgent>(ended), 1u);
}

TEST(AgentMachine, EndsItsRanksWhenAnotherNodeHasTheirPlace) {
  AgentMachine machine = Running(Granted());
  const auto refused = machine.Step(
      At(10), MasterRefused{.why = "not wished for", .exit_code = 92, .grace = Duration()});
  EXPECT_NE(SignalSent(refused), std::nullopt);
  const auto ended = machine.Step(At(11), Killed(1, 77));
  EXPECT_EQ(Count<SpawnRank>(ended), 0u);
  ASSERT_EQ(Count<ExitAgent>(ended), 1u);
}

TEST(AgentMachine, ForgetsARefusalWhenItIsAdmittedAfterAll) {
  AgentMachine machine = Running(Granted());
  machine.Step(At(9), MasterUnlinked{"gone"});
  machine.Step(At(10), MasterRefused{"its token is wrong", 4});
  machine.Step(At(11), MasterLinked{});
  EXPECT_EQ(Count<ExitAgent>(machine.Step(At(12), Killed(1, 77))), 0u);
}

}  // namespace
}  // namespace paceline::core
