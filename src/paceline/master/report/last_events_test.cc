#include "paceline/master/report/last_events.h"

#include "gtest/gtest.h"

namespace paceline::master {
namespace {

core::Record RecordOf(uint64_t seq, core::Fact fact) {
  core::Record record;
  record.seq = RecordSeq(seq);
  record.fact = std::move(fact);
  return record;
}

TEST(LastEvents, AreTheNewestAndThoseOfTheLastIncident) {
  LastEvents events;
  NodeNames names;
  uint64_t seq = 0;
  const auto fold = [&](core::Fact fact) {
    const core::Record record = RecordOf(++seq, std::move(fact));
    names.Fold(record);
    events.Fold(record);
  };
  fold(core::ProgressMade{});
  fold(core::NodeLost{.node = NodeId(1), .reason = "its pod was deleted"});
  for (int i = 0; i < 200; ++i) fold(core::ProgressMade{});
  fold(core::JobFinished{.exit_code = 0, .reason = "all ranks are done"});
  const std::vector<wire::JobEvent> rows = events.Rows(names);
  ASSERT_EQ(rows.size(), LastEvents::kNewestMax + 1);
  EXPECT_EQ(rows.front().kind, "node_lost");
  EXPECT_EQ(rows.back().kind, "job_finished");
  EXPECT_EQ(rows.back().seq, seq);
}

TEST(LastEvents, AreBounded) {
  LastEvents events;
  for (uint64_t seq = 1; seq <= 1000; ++seq) {
    events.Fold(RecordOf(seq, core::NodeLost{.node = NodeId(1)}));
  }
  EXPECT_EQ(events.Rows({}).size(), LastEvents::kNewestMax + LastEvents::kOfIncidentsMax);
}

TEST(LastEvents, LeaveOutTheRecordOfEachMinute) {
  LastEvents events;
  events.Fold(RecordOf(1, core::NodeLost{.node = NodeId(1)}));
  for (uint64_t seq = 2; seq <= 1000; ++seq) events.Fold(RecordOf(seq, core::TimeAccounted{}));
  const std::vector<wire::JobEvent> rows = events.Rows({});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.front().kind, "node_lost");
}

}  // namespace
}  // namespace paceline::master
