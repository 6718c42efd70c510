#include "paceline/wire/codec/ring_part.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/ring_proto.h"

namespace paceline::wire {
namespace {

RingPart OnePart() {
  RingPart part{.boot_id = "b",
                .now = {Instant::FromNanoseconds(5), 6},
                .has_ring = true,
                .has_more = true,
                .slice = {.rank = 3,
                          .generation = 7,
                          .last_event_ns = 8,
                          .is_alive = true,
                          .whole_from_ns = 9,
                          .has_older = true}};
  part.slice.entries = {{.number = 1, .kind = FlightKind::kPhase, .operation = "data"},
                        {.number = 2,
                         .kind = FlightKind::kCollective,
                         .group = "0 0-1",
                         .operation = "all_reduce",
                         .dtype = "float32",
                         .site = "train.py:44",
                         .sequence = 4,
                         .bytes = 1 << 20,
                         .begun_ns = -1,
                         .completed_ns = 77}};
  return part;
}

TEST(RingPart, SurvivesItsWay) {
  const RingPart part = OnePart();
  const auto heard = DecodeRingPart(EncodeRingPart(part));
  ASSERT_TRUE(heard.ok()) << heard.status();
  EXPECT_EQ(heard->boot_id, "b");
  EXPECT_EQ(heard->now.wall, part.now.wall);
  EXPECT_EQ(heard->now.monotonic_ns, 6);
  EXPECT_TRUE(heard->has_ring && heard->has_more);
  EXPECT_EQ(heard->slice.rank, 3);
  EXPECT_EQ(heard->slice.generation, 7u);
  EXPECT_EQ(heard->slice.last_event_ns, 8);
  EXPECT_EQ(heard->slice.whole_from_ns, 9);
  EXPECT_TRUE(heard->slice.is_alive && heard->slice.has_older);
  ASSERT_EQ(heard->slice.entries.size(), 2u);
  EXPECT_EQ(heard->slice.entries[0].operation, "data");
  EXPECT_EQ(heard->slice.entries[0].group, "");
  const FlightEntry& last = heard->slice.entries[1];
  EXPECT_EQ(last.kind, FlightKind::kCollective);
  EXPECT_EQ(last.group + last.operation + last.dtype + last.site,
            "0 0-1all_reducefloat32train.py:44");
  EXPECT_EQ(last.number + last.sequence, 6u);
  EXPECT_EQ(last.bytes, 1u << 20);
  EXPECT_EQ(last.begun_ns, -1);
  EXPECT_EQ(last.completed_ns, 77);
}

// Each record has four texts of its own, as long as a ring has them, and the largest numbers.
TEST(RingPart, TheLargestOneFitsIntoAnAgentsMessage) {
  RingPart part;
  uint32_t text = 0;
  const auto next = [&text] {
    std::string name = std::to_string(text++ % kRingNames);
    name.resize(kRingNameBytes - 1, 'x');
    return name;
  };
  for (size_t i = 0; i < kRingSliceMax; ++i) {
    part.slice.entries.push_back({.number = std::numeric_limits<uint64_t>::max(),
                                  .kind = FlightKind::kCollective,
                                  .group = next(),
                                  .operation = next(),
                                  .dtype = next(),
                                  .site = next(),
                                  .sequence = std::numeric_limits<uint64_t>::max(),
                                  .bytes = std::numeric_limits<uint64_t>::max(),
                                  .begun_ns = std::numeric_limits<int64_t>::min(),
                                  .completed_ns = std::numeric_limits<int64_t>::min()});
  }
  const std::string content = EncodeRingPart(part);
  EXPECT_LE(content.size(), kRingPartBytesMax);
  EXPECT_TRUE(DecodeRingPart(content).ok());
}

TEST(RingPart, NonsenseIsRefused) {
  EXPECT_FALSE(DecodeRingPart("no part").ok());
  RingPart part = OnePart();
  part.slice.entries.resize(kRingSliceMax + 1);
  EXPECT_FALSE(DecodeRingPart(EncodeRingPart(part)).ok());
  pb::RingPart other;
  other.add_records()->set_site(1);
  EXPECT_FALSE(DecodeRingPart(other.SerializeAsString()).ok());
  other.Clear();
  other.add_records()->set_kind(9);
  EXPECT_FALSE(DecodeRingPart(other.SerializeAsString()).ok());
}

TEST(RingMessages, SurviveTheirWay) {
  const RingCursor at{
      .rank = 3, .generation = Generation(7), .before = 99, .last = Duration::Seconds(30)};
  pb::MasterMessage question;
  ToProto(MasterMessage(RingsWanted{5, at}), &question);
  const auto wanted = FromProto(question);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_EQ(std::get<RingsWanted>(*wanted).id, 5u);
  EXPECT_EQ(std::get<RingsWanted>(*wanted).at, at);
  pb::AgentMessage answer;
  ToProto(AgentMessage(RingPiece{5, std::string("\0\xff", 2)}), &answer);
  const auto piece = FromProto(answer);
  ASSERT_TRUE(piece.ok()) << piece.status();
  EXPECT_EQ(std::get<RingPiece>(*piece).id, 5u);
  EXPECT_EQ(std::get<RingPiece>(*piece).content, std::string("\0\xff", 2));
}

TEST(RingMessages, ARequestNamesANode) {
  RingsRequest request{.node = "node1", .at = {.rank = 3, .last = Duration::Seconds(1)}};
  pb::ReadRingsRequest encoded;
  ToProto(request, &encoded);
  RingsRequest heard;
  ASSERT_TRUE(FromProto(encoded, &heard).ok());
  EXPECT_EQ(heard.node, "node1");
  EXPECT_EQ(heard.at, request.at);
  encoded.set_node("no node");
  EXPECT_FALSE(FromProto(encoded, &heard).ok());
  encoded.set_node("node1");
  encoded.set_last(-1);
  EXPECT_FALSE(FromProto(encoded, &heard).ok());
}

}  // namespace
}  // namespace paceline::wire
