#include "paceline/cli/run/wait_teller.h"

#include <vector>

#include "gtest/gtest.h"
#include "paceline/cli/run/status_line.h"

namespace paceline::cli {
namespace {

TEST(WaitTeller, TellsAfterFiveSecondsAndThenEachMinute) {
  WaitTeller teller;
  const Instant begin = Instant::FromNanoseconds(1'000'000'000);
  std::vector<int64_t> told;
  for (int64_t second = 0; second <= 130; ++second) {
    if (teller.Take(begin + Duration::Seconds(second), /*is_waiting=*/true)) told.push_back(second);
  }
  EXPECT_EQ(told, (std::vector<int64_t>{5, 65, 125}));
}

TEST(WaitTeller, KnowsWhatAJobWaitsFor) {
  wire::JobStatus status;
  status.phase = "running";
  status.pending = "trains with 2 nodes";
  status.journal = "ok";
  EXPECT_EQ(WaitOf(status), "");
  status.phase = "waiting";
  status.pending = "waits for nodes";
  EXPECT_EQ(WaitOf(status), "waits for nodes");
  status.phase = "running";
  status.journal = "No space left on device";
  EXPECT_EQ(WaitOf(status),
            "ranks go on, but decisions wait until the journal is written: No space left on "
            "device");
  EXPECT_EQ(WaitOf(absl::UnavailableError("refused")), "waiting for the master: refused");
}

TEST(WaitTeller, SaysNothingOfShortWaits) {
  WaitTeller teller;
  Instant now = Instant::FromNanoseconds(1'000'000'000);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(teller.Take(now += Duration::Seconds(4), /*is_waiting=*/true));
    EXPECT_FALSE(teller.Take(now += Duration::Seconds(4), /*is_waiting=*/false));
  }
}

}  // namespace
}  // namespace paceline::cli
