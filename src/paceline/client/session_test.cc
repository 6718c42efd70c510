#include "paceline/client/session.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

#include "paceline/base/test_dir.h"
#include "paceline/client/slot_book.h"

namespace paceline::client {
namespace {

class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    alignas(64) static char memory[PageBytes(2)];
    std::fill(std::begin(memory), std::end(memory), '\0');
    const PageIdentity identity{
        .job_id = "job", .node = "node0", .boot_id = "boot", .slot_count = 2};
    EXPECT_TRUE(FormatPage(std::as_writable_bytes(std::span(memory)), identity));
    std::ofstream(path_, std::ios::binary).write(memory, sizeof(memory));
  }

  SlotBook Book() { return std::move(*SlotBook::Open(path_, "job", "node0")); }
  Result<Session> OpenSession(uint64_t generation) {
    return Session::Open({.page_path = path_, .slot = 1, .generation = generation});
  }
  SlotReading Read() {
    return *ReadSlot(SlotOf(PageFile::Open(path_, PageAccess::kRead)->header(), 1));
  }
  void Begin(uint64_t generation) {
    ASSERT_TRUE(Book().Begin(1, {.generation = generation, .rank = 5, .local_rank = 1}).ok());
  }

  const TestDir dir_;
  const std::string directory_ = dir_.path();
  const std::string path_ = directory_ + "/page";
};

TEST_F(SessionTest, CountsStepsFromThisStart) {
  Begin(3);
  auto session = OpenSession(3);
  ASSERT_TRUE(session.ok()) << session.failure().message;
  session->CountStep();
  session->CountStep();
  const SlotReading slot = Read();
  EXPECT_EQ(2, slot.step);
  EXPECT_EQ(2u, slot.step_count);
  EXPECT_EQ(0u, slot.flags & kSlotStepIsAbsolute);
  EXPECT_TRUE(std::isnan(slot.loss));
  EXPECT_GT(slot.first_step_monotonic_ns, 0);
  EXPECT_GE(slot.last_step_monotonic_ns, slot.first_step_monotonic_ns);
}

TEST_F(SessionTest, TheScriptsOwnStepReplacesTheCount) {
  Begin(3);
  auto session = OpenSession(3);
  session->CountStep();
  session->CountStep();
  session->Step(1, 0.5);
  session->CountStep();
  const SlotReading slot = Read();
  EXPECT_EQ(1, slot.step);
  EXPECT_EQ(0.5, slot.loss);
  EXPECT_NE(0u, slot.flags & kSlotStepIsAbsolute);
}

TEST_F(SessionTest, ASaveOfAReportedStepKeepsItsLoss) {
  Begin(3);
  auto session = OpenSession(3);
  session->Step(1, 0.5);
  session->Step(1);
  EXPECT_EQ(0.5, Read().loss);
  session->Step(2);
  EXPECT_TRUE(std::isnan(Read().loss));
}

TEST_F(SessionTest, TheFirstStepIsKnownOnceTheScriptSaysANumber) {
  Begin(3);
  auto session = OpenSession(3);
  for (int i = 0; i < 10; ++i) session->CountStep();
  EXPECT_EQ(0u, Read().first_step);
  session->Step(29, std::nullopt);  // the tenth step of this attempt
  session->Step(39, std::nullopt);
  EXPECT_EQ(20u + 1, Read().first_step);
}

// The count less the step is where this attempt began.
TEST_F(SessionTest, CountsTheStepsThatTheScriptTells) {
  Begin(3);
  auto session = OpenSession(3);
  session->CountStep();
  session->Step(151, std::nullopt);  // the hook has counted it already
  EXPECT_EQ(1u, Read().step_count);
  session->Step(151, std::nullopt);  // by a save
  EXPECT_EQ(1u, Read().step_count);
  session->Step(160, std::nullopt);  // the script tells each tenth step
  EXPECT_EQ(10u, Read().step_count);
  session->Step(3, 0.5);  // another pass
  EXPECT_EQ(11u, Read().step_count);
}

TEST_F(SessionTest, ATrainingMayHaveAKnownNumberOfSteps) {
  Begin(3);
  auto session = OpenSession(3);
  EXPECT_EQ(0u, Read().steps_total);
  session->EndsAt(1200);
  EXPECT_EQ(1200u, Read().steps_total);
  session->EndsAt(-1);
  EXPECT_EQ(0u, Read().steps_total);
}

TEST_F(SessionTest, ANewAttemptGoesOnCountingLostLines) {
  Begin(3);
  OpenSession(3)->LinesDropped(2);
  Begin(4);
  OpenSession(4)->LinesDropped(5);
  EXPECT_EQ(7u, Read().lines_dropped);
}

TEST_F(SessionTest, LowerStepIsNoProgress) {
  Begin(3);
  auto session = OpenSession(3);
  session->Step(10, 1.0);
  const int64_t rose = Read().last_step_monotonic_ns;
  session->Step(4, 2.0);
  EXPECT_EQ(10, Read().step);
  EXPECT_EQ(rose, Read().last_step_monotonic_ns);
  EXPECT_EQ(2u, Read().step_count);
}

TEST_F(SessionTest, FencedProcessIsRefused) {
  Begin(4);
  EXPECT_EQ(FailureKind::kFenced, OpenSession(3).failure().kind);
}

TEST_F(SessionTest, ChildOfTheRankIsRefused) {
  Begin(3);
  ASSERT_TRUE(OpenSession(3).ok());
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = OpenSession(3).failure().kind == FailureKind::kNotOurs;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
}

TEST_F(SessionTest, NewAttemptForgetsTheFormer) {
  Begin(3);
  auto session = OpenSession(3);
  session->Step(7, 0.1);
  session->Saved(5);
  session->PortTaken();
  EXPECT_GT(session->Failed(), 0);
  ASSERT_TRUE(Book().Running(1, {.pid = 77, .start_time_ticks = 88}).ok());
  ASSERT_TRUE(Book().Exited(1, 256, 1024).ok());
  SlotReading slot = Read();
  EXPECT_EQ(SlotState::kExited, slot.state);
  EXPECT_EQ(256, slot.wait_status);
  EXPECT_EQ(5, slot.saved_step);
  EXPECT_TRUE(slot.port_taken);
  Begin(4);
  slot = Read();
  EXPECT_EQ(2u, slot.attempt);
  EXPECT_EQ(-1, slot.step);
  EXPECT_EQ(-1, slot.saved_step);
  EXPECT_FALSE(slot.port_taken);
  EXPECT_FALSE(slot.wait_status.has_value());
}

TEST_F(SessionTest, OccupantIsKnownOnlyWhileRunning) {
  Begin(3);
  EXPECT_EQ(0, Book().Occupant(1)->pid);
  ASSERT_TRUE(Book().Running(1, {.pid = 77, .start_time_ticks = 88}).ok());
  EXPECT_EQ(77, Book().Occupant(1)->pid);
  ASSERT_TRUE(Book().Exited(1, 0, 0).ok());
  EXPECT_EQ(0, Book().Occupant(1)->pid);
}

TEST_F(SessionTest, OtherJobsPageIsRefused) {
  EXPECT_EQ(FailureKind::kNotOurs, SlotBook::Open(path_, "other", "node0").failure().kind);
  EXPECT_EQ(FailureKind::kBadSlot, Book().Begin(2, {}).failure().kind);
}

TEST_F(SessionTest, DamagedFilesAreRefused) {
  EXPECT_EQ(0, truncate(path_.c_str(), 100));
  EXPECT_EQ(FailureKind::kNotAPage, OpenSession(3).failure().kind);
  EXPECT_EQ(FailureKind::kNotAPage, PageFile::Open(directory_, PageAccess::kRead).failure().kind);
  EXPECT_EQ(FailureKind::kSystem,
            PageFile::Open(directory_ + "/none", PageAccess::kRead).failure().kind);
}

TEST_F(SessionTest, ALossThatIsNoNumberIsTold) {
  Begin(4);
  auto session = OpenSession(4);
  ASSERT_TRUE(session.ok());
  session->Step(1);
  EXPECT_EQ(0u, Read().flags & kSlotLossTold);
  EXPECT_EQ(0u, Read().bad_losses);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t step = 2; step < 30; ++step) session->Step(step, nan);
  const SlotReading slot = Read();
  EXPECT_TRUE(std::isnan(slot.loss));
  EXPECT_NE(0u, slot.flags & kSlotLossTold);
  EXPECT_EQ(1u, slot.bad_losses);
  EXPECT_EQ(2, slot.bad_step);
  EXPECT_EQ(static_cast<uint64_t>(BadLossKind::kLossNoNumber), slot.bad_kind);
  session->Step(30);
  EXPECT_EQ(0u, Read().flags & kSlotLossTold);
}

}  // namespace
}  // namespace paceline::client
