#include "paceline/wire/codec/pace_proto.h"

#include <string>
#include <variant>

#include "gtest/gtest.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/messages.h"

namespace paceline::wire {
namespace {

RankTimes Sample() {
  RankTimes times{.generation = Generation(7),
                  .rank = Rank(9),
                  .phase = RankPhase::kEvaluation,
                  .has_ended = true,
                  .is_piped = true};
  for (uint32_t i = 0; i < kRankPhases; ++i) {
    times.times.of[i] = Duration::Milliseconds(1000 * i + 1);
  }
  times.times.waited = Duration::Milliseconds(77);
  return times;
}

template <class Message>
Message Sent(const Message& said) {
  pb::AgentMessage message;
  ToProto(said, &message);
  const auto heard = FromProto(message);
  EXPECT_TRUE(heard.ok()) << heard.status();
  return std::get<Message>(*heard);
}

TEST(PaceProto, TimesByPhaseSurviveWithHeartbeatsAndEnds) {
  Heartbeat heartbeat;
  heartbeat.times = {Sample(), {.generation = Generation(7), .rank = Rank(10)}};
  EXPECT_EQ(Sent(heartbeat).times, heartbeat.times);
  RankEnd end;
  end.rank.pid = 5;
  end.rank.state = RankReport::State::kExited;
  EXPECT_FALSE(Sent(end).times.has_value());
  end.times = Sample();
  EXPECT_EQ(Sent(end).times, end.times);
}

TEST(PaceProto, TimesAreCutToMilliseconds) {
  Heartbeat heartbeat;
  heartbeat.times = {Sample()};
  heartbeat.times[0].times.of[1] = Duration::Microseconds(2'999);
  EXPECT_EQ(Sent(heartbeat).times[0].times.of[1], Duration::Milliseconds(2));
}

// A newer agent's phases count as unknown, so that nothing it told is lost.
TEST(PaceProto, PhasesOfANewerReleaseCountAsUnknown) {
  pb::RankTimes message;
  for (uint32_t i = 0; i < kRankPhases + 2; ++i) message.add_spent(10);
  message.set_phase(kRankPhases + 1);
  RankTimes times;
  ASSERT_TRUE(FromProto(message, &times).ok());
  EXPECT_EQ(times.phase, RankPhase::kUnknown);
  const auto unknown = static_cast<size_t>(RankPhase::kUnknown);
  EXPECT_EQ(times.times.of[unknown], Duration::Milliseconds(30));
  EXPECT_EQ(times.times.of[0], Duration::Milliseconds(10));
}

TEST(PaceProto, ImpossibleTimesAreRefused) {
  RankTimes times;
  pb::RankTimes many;
  for (int i = 0; i < 65; ++i) many.add_spent(1);
  EXPECT_FALSE(FromProto(many, &times).ok());
  pb::RankTimes long_ago;
  long_ago.add_spent(UINT64_MAX);
  EXPECT_FALSE(FromProto(long_ago, &times).ok());
  pb::RankTimes waiting;
  waiting.set_waited(UINT64_MAX);
  EXPECT_FALSE(FromProto(waiting, &times).ok());
  pb::TimeAccounted record;
  record.add_spent(-1);
  core::TimeAccounted account;
  EXPECT_FALSE(FromProto(record, &account).ok());
  pb::TimeAccounted backwards;
  backwards.set_steps(-1);
  EXPECT_FALSE(FromProto(backwards, &account).ok());
}

}  // namespace
}  // namespace paceline::wire
