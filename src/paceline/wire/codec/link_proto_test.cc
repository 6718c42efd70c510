#include "paceline/wire/codec/link_proto.h"

#include "gtest/gtest.h"

#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {
namespace {

TEST(LinkProtoTest, AnOrderAndItsAnswerSurvive) {
  const LinkTry order{.round = 7, .peer = "n2", .address = "[fd77::1]:4000", .chunks = 6};
  pb::MasterMessage asked;
  ToProto(MasterMessage(order), &asked);
  const auto heard = FromProto(asked);
  ASSERT_TRUE(heard.ok()) << heard.status();
  EXPECT_EQ(std::get<LinkTry>(*heard), order);

  const LinkTested tested{.round = 7, .peer = "n2", .gb_s = 0.25, .problem = "no answer"};
  pb::AgentMessage said;
  ToProto(AgentMessage(tested), &said);
  const auto told = FromProto(said);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(std::get<LinkTested>(*told), tested);
}

TEST(LinkProtoTest, AnOrderThatCannotBeIsRefused) {
  const LinkTry good{.round = 7, .peer = "n2", .address = "10.0.0.2:4000", .chunks = 6};
  const auto is_taken = [](const LinkTry& order) {
    pb::MasterMessage message;
    ToProto(MasterMessage(order), &message);
    return FromProto(message).ok();
  };
  EXPECT_TRUE(is_taken(good));
  for (const uint32_t chunks : {uint32_t{0}, kLinkChunksMax + 1}) {
    LinkTry bad = good;
    bad.chunks = chunks;
    EXPECT_FALSE(is_taken(bad)) << chunks;
  }
  LinkTry bad = good;
  bad.peer = "../n2";
  EXPECT_FALSE(is_taken(bad));
  bad = good;
  bad.address = "10.0.0.2:4000 && reboot";
  EXPECT_FALSE(is_taken(bad));
}

TEST(LinkProtoTest, AVerdictSurvives) {
  const core::PairsJudged judged{.nodes = 4,
                                 .pairs = 6,
                                 .took = Duration::Milliseconds(120),
                                 .slowest = 1.5,
                                 .bad = {"n1"},
                                 .bad_links = {{"n2", "n3", "no answer"}},
                                 .doubtful = {{"n2", "n4", "refused"}},
                                 .missed = {"n5"}};
  pb::Fact message;
  ToProto(core::Fact(judged), &message);
  const auto back = FromProto(message);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<core::PairsJudged>(*back), judged);
}

// An agent of an older release names no bulk channel, so its links are never tested.
TEST(LinkProtoTest, AnAgentThatNamesNoChannelIsUnderstood) {
  pb::AgentMessage message;
  NodeReport report{.name = "n1", .slots = 1};
  ToProto(AgentMessage(Register{report, {}}), &message);
  EXPECT_TRUE(message.register_().bulk().empty());
  const auto back = FromProto(message);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<Register>(*back).report.bulk, "");
  report.bulk = "10.0.0.1:4000";
  ToProto(AgentMessage(Register{report, {}}), &message);
  const auto named = FromProto(message);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(std::get<Register>(*named).report.bulk, report.bulk);
}

}  // namespace
}  // namespace paceline::wire
