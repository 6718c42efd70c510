// Codes of the page's links, and the events that a reader who comes back has missed.

#include "gtest/gtest.h"
#include "paceline/base/text.h"
#include "paceline/master/page/door.h"
#include "paceline/master/page/feed_log.h"
#include "paceline/wire/security/credentials.h"
#include "paceline/wire/security/page_session.h"

namespace paceline::master {
namespace {

Instant PageSecond(int64_t second) { return Instant::FromNanoseconds(second * 1'000'000'000); }

TEST(PageDoor, ACodeIsTradedOnceAndWithinAMinute) {
  const std::string job = wire::MakeToken();
  PageDoor door(job);
  const std::string code = door.MakeCode(PageSecond(100));
  const std::string late = door.MakeCode(PageSecond(100));
  EXPECT_FALSE(door.Trade("", PageSecond(100)).has_value());
  EXPECT_FALSE(door.Trade(job, PageSecond(100)).has_value());
  const auto session = door.Trade(code, PageSecond(160));
  ASSERT_TRUE(session.has_value());
  EXPECT_TRUE(wire::IsPageSession(job, *session));
  EXPECT_FALSE(door.Trade(code, PageSecond(160)).has_value()) << "used twice";
  EXPECT_FALSE(door.Trade(late, PageSecond(161)).has_value()) << "too old";
}

TEST(PageDoor, KeepsTheNewestCodes) {
  PageDoor door(wire::MakeToken());
  const std::string first = door.MakeCode(PageSecond(1));
  std::string last;
  for (size_t i = 0; i < PageDoor::kCodesMax; ++i) last = door.MakeCode(PageSecond(2));
  EXPECT_FALSE(door.Trade(first, PageSecond(3)).has_value());
  EXPECT_TRUE(door.Trade(last, PageSecond(3)).has_value());
}

TEST(FeedLog, GivesWhatAReaderHasMissed) {
  FeedLog log;
  log.StartAfter(10);
  EXPECT_EQ(log.After(10), "");
  for (uint64_t seq = 11; seq <= 14; ++seq) log.Add(seq, Concat("<", seq, ">"));
  EXPECT_EQ(log.After(10), "<11><12><13><14>");
  EXPECT_EQ(log.After(12), "<13><14>");
  EXPECT_EQ(log.After(14), "");
  EXPECT_EQ(log.After(15), "") << "durable, and not sent yet";
  EXPECT_EQ(log.After(9), std::nullopt);
}

TEST(FeedLog, AReaderOfDroppedEventsNeedsANewPicture) {
  FeedLog log;
  const std::string frame(FeedLog::kBytesMax / 4, 'x');
  for (uint64_t seq = 1; seq <= 5; ++seq) log.Add(seq, frame);
  EXPECT_EQ(log.After(0), std::nullopt);
  EXPECT_EQ(log.After(1)->size(), 4 * frame.size());
  log.Add(100, "later");  // a gap
  EXPECT_EQ(log.After(50), std::nullopt);
  EXPECT_EQ(log.After(99), "later");
}

TEST(FeedLog, AFrameIsOneEventWhateverItsTextIs) {
  const std::string frame =
      FeedFrame({.seq = 7,
                 .kind = "rank_failed",
                 .sentence = "a\n\nid: 9\r\n\x1b[31m\xff" + std::string(1'000'000, 'x')});
  EXPECT_TRUE(frame.starts_with("id: 7\nevent: record\ndata: {")) << frame;
  EXPECT_EQ(frame.find("\n\n"), frame.size() - 2);
  EXPECT_EQ(frame.find('\r'), std::string::npos);
  EXPECT_LT(frame.size(), 1000u);
}

}  // namespace
}  // namespace paceline::master
