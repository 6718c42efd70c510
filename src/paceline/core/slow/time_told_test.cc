// When the job records how its ranks spent their time.

#include "paceline/core/slow/time_told.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/job.h"
#include "paceline/core/slow/time_desk.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

// A job of one node with one rank, that trains.
class TimeToldTest : public ::testing::Test {
 protected:
  TimeToldTest() {
    JobSpec spec;
    spec.job_id = "timed";
    spec.nodes_min = spec.nodes_max = 1;
    spec.nproc_per_node = 1;
    Take(JobSubmitted{spec});
    Take(MasterStarted{1});
    Take(NodeRegistered{ConnectionId(1), TestReport("n1")});
  }

  void Take(const Event& event) {
    for (const Record& record : job_.Step(now_, event).records) records_.push_back(record);
  }
  void Beat(RankReport::State state, int64_t steps) {
    RankReport rank;
    rank.generation = job_.state().world->generation;
    rank.rank = Rank(0);
    rank.pid = 100;
    rank.state = state;
    rank.step = rank.step_count = steps;
    Take(NodeReported{.node = NodeId(1),
                      .connection = ConnectionId(1),
                      .generation = job_.state().world->generation,
                      .store_port = 4000,
                      .ranks = {rank}});
  }
  // The rank has worked for so long, and works.
  void Tell(Duration work, Generation generation) {
    TimeTold told{.generation = generation, .ranks = 1};
    told.spent[static_cast<size_t>(TimePart::kWork)] = work.milliseconds();
    told.now[static_cast<size_t>(TimePart::kWork)] = 1;
    Take(told);
  }
  void Tell(Duration work) { Tell(work, job_.state().world->generation); }
  // "world_running time_accounted:1500"
  std::string Records() {
    std::string text;
    for (const Record& record : records_) {
      text += (text.empty() ? "" : " ") + std::string(FactName(record.fact));
      const auto* account = std::get_if<TimeAccounted>(&record.fact);
      if (account == nullptr) continue;
      text += ":" + std::to_string(account->spent[static_cast<size_t>(TimePart::kWork)]);
    }
    records_.clear();
    return text;
  }

  Job job_;
  Instant now_ = Instant() + Duration::Seconds(1000);
  std::vector<Record> records_;
};

TEST_F(TimeToldTest, IsRecordedBeforeTheFirstStepAndOnceAMinute) {
  ASSERT_TRUE(job_.state().world.has_value());
  Tell(Duration::Seconds(3));
  Records();
  now_ += Duration::Milliseconds(500);
  Beat(RankReport::State::kStepping, 1);
  // The sums up to that time: the rank has gone on since it told them.
  EXPECT_EQ(Records(), "time_accounted:3500 world_running");
  for (int second = 1; second < 60; ++second) {
    now_ += Duration::Seconds(1);
    Tell(Duration::Seconds(4 + second));
    Beat(RankReport::State::kStepping, 1 + second);
  }
  EXPECT_EQ(Records(), "");
  now_ += Duration::Seconds(1);
  Tell(Duration::Seconds(64));
  EXPECT_EQ(Records(), "time_accounted:64000");
}

TEST_F(TimeToldTest, TheLastSumsStandBeforeTheStop) {
  Tell(Duration::Seconds(3));
  Beat(RankReport::State::kStepping, 1);
  Records();
  now_ += Duration::Milliseconds(800);
  Take(StopRequested{.why = "asked", .grace = Duration::Seconds(1)});
  EXPECT_EQ(Records(), "time_accounted:3800 stop_decided");
  Tell(Duration::Seconds(9));
  EXPECT_EQ(Records(), "");
}

// A rank of which nothing is heard any more is not taken to work for ever.
TEST_F(TimeToldTest, AnOldMessageIsNotContinuedForLong) {
  Tell(Duration::Seconds(3));
  Beat(RankReport::State::kStepping, 1);
  Records();
  now_ += Duration::Seconds(30);
  Take(StopRequested{.why = "asked", .grace = Duration::Seconds(1)});
  const std::string told = Records();
  EXPECT_NE(told.find("time_accounted:" + std::to_string(3000 + kGuessMax.milliseconds())),
            std::string::npos)
      << told;
}

TEST_F(TimeToldTest, TimesOfAnotherWorldAreNotRecorded) {
  Tell(Duration::Seconds(3), Generation(99));
  Records();
  Beat(RankReport::State::kStepping, 1);
  EXPECT_EQ(Records(), "world_running");
}

TEST_F(TimeToldTest, AJobWithoutTimesRecordsNone) {
  Records();
  Beat(RankReport::State::kStepping, 1);
  now_ += Duration::Seconds(200);
  Beat(RankReport::State::kStepping, 2);
  EXPECT_EQ(Records().find("time_accounted"), std::string::npos);
}

}  // namespace
}  // namespace paceline::core
