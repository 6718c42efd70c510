#include "paceline/core/goodput/timeline.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace paceline::core {
namespace {

Instant SecondOf(int64_t seconds) { return Instant() + Duration::Seconds(seconds); }

class TimelineTest : public testing::Test {
 protected:
  void Fold(int64_t second, Fact fact) {
    timeline_.Fold({RecordSeq(++seq_), SecondOf(second), {}, std::move(fact)});
  }
  void Form(int64_t second, std::vector<uint32_t> nodes) {
    WorldFormed formed;
    for (const uint32_t node : nodes) formed.world.seats.push_back({.node = NodeId(node)});
    Fold(second, std::move(formed));
  }
  // "productive 10-20, restart 20-23"
  static std::string Words(const Timeline::Picture& picture) {
    std::string text;
    for (const TimelineStretch& stretch : picture.stretches) {
      const auto& names = TimeClassTexts()[static_cast<size_t>(stretch.time_class)];
      text += (text.empty() ? "" : ", ") + std::string(names.words) + " " +
              std::to_string((stretch.from - Instant()).milliseconds() / 1000) + "-" +
              std::to_string((stretch.until - Instant()).milliseconds() / 1000);
    }
    return text;
  }

  Timeline timeline_;
  uint64_t seq_ = 0;
};

TEST_F(TimelineTest, ShowsWhatTheSlotsDidAndWhenNodesHadASeat) {
  Fold(100, NodeJoined{.node = NodeId(1), .name = "a", .slots = 2});
  Fold(101, NodeJoined{.node = NodeId(2), .name = "b", .slots = 2});
  Form(104, {1, 2});
  Fold(110, WorldRunning{.step = 1});
  Fold(130, NodeLost{.node = NodeId(2), .silent_for = Duration::Seconds(6)});
  Fold(130, WorldEnded{.step = 20});
  Form(131, {1});
  Fold(133, WorldRunning{.step = 16, .began_at = 15});
  const Timeline::Picture picture = timeline_.Last(Duration::Seconds(35), SecondOf(140));
  EXPECT_EQ(Words(picture),
            "first start 105-110, productive 110-124, detection 124-130, decision 130-131, "
            "restart 131-133, redone 133-140");
  ASSERT_EQ(picture.lanes.size(), 2u);
  EXPECT_EQ(picture.lanes[1].node, "b");
  ASSERT_EQ(picture.lanes[1].parts.size(), 1u);
  EXPECT_TRUE(picture.lanes[1].parts[0].is_seated);
  EXPECT_EQ(picture.lanes[1].parts[0].until, SecondOf(130));
  EXPECT_EQ(picture.lanes[0].parts.back().until, SecondOf(140));
}

TEST_F(TimelineTest, EndsWithTheJob) {
  Fold(100, NodeJoined{.node = NodeId(1), .name = "a", .slots = 2});
  Form(100, {1});
  Fold(101, WorldRunning{.step = 1});
  Fold(110, JobFinished{});
  const Timeline::Picture picture = timeline_.Last(Duration::Seconds(60), SecondOf(999));
  EXPECT_EQ(Words(picture), "first start 100-101, productive 101-110");
  EXPECT_EQ(picture.until, SecondOf(110));
}

TEST_F(TimelineTest, GoesOnWithTheNodesOfAResumedJob) {
  Fold(100, NodeJoined{.node = NodeId(1), .name = "a", .slots = 2});
  Fold(100, NodeJoined{.node = NodeId(2), .name = "b", .slots = 2});
  Form(100, {1, 2});
  Fold(101, WorldRunning{.step = 1});
  Fold(105, NodeLost{.node = NodeId(2), .name = "b"});
  Fold(110, JobFinished{});
  Fold(130, JobResumed{});
  Form(131, {1});
  const Timeline::Picture picture = timeline_.Last(Duration::Seconds(60), SecondOf(140));
  ASSERT_EQ(picture.lanes.size(), 2u);
  const auto& parts = picture.lanes[0].parts;
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].until, SecondOf(110));
  EXPECT_EQ(parts[1].from, SecondOf(130));
  EXPECT_TRUE(parts[2].is_seated);
  EXPECT_EQ(picture.lanes[1].parts.back().until, SecondOf(105));
}

}  // namespace
}  // namespace paceline::core
