#include "paceline/ps/frame/table_frame.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace paceline::ps {
namespace {

// A body in memory that is aligned as decoders want it.
class AlignedBody {
 public:
  explicit AlignedBody(std::string_view text) : size_(text.size()), words_(text.size() / 8 + 1) {
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(words_.data()));
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words_)).first(size_); }

 private:
  size_t size_;
  std::vector<uint64_t> words_;
};

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(TableFrameTest, AHeadSaysAgainWhatWasWritten) {
  const TableHead head{.op = TableOp::kInit,
                       .flags = TableHead::kTraining,
                       .number = 7,
                       .table = 3,
                       .count = 1,
                       .recovery = 9};
  const std::string frame = EncodeFrame(head, "12345678abcd");
  ASSERT_EQ(frame.size(), kTableHeadBytes + 12);
  const auto read = ReadHead(BytesOf(frame));
  ASSERT_TRUE(read.has_value());
  TableHead expected = head;
  expected.bytes = 12;
  EXPECT_EQ(read->head, expected);
}

TEST(TableFrameTest, EachFlippedBitIsSeen) {
  const std::string frame =
      EncodeFrame({.op = TableOp::kOpen, .number = 1, .table = 2, .count = 3}, "a spec");
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string damaged = frame;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto bytes = BytesOf(damaged);
    EXPECT_FALSE(IsBodyOf(bytes.first(kTableHeadBytes), bytes.subspan(kTableHeadBytes))) << bit;
  }
}

TEST(TableFrameTest, AHeadThatPromisesTooMuchIsRefusedBeforeItsBody) {
  const auto with_bytes = [](TableOp op, uint64_t bytes, uint32_t count) {
    std::string frame = EncodeFrame({.op = op, .count = count}, "");
    std::copy_n(reinterpret_cast<const char*>(&bytes), sizeof(bytes), frame.begin() + 24);
    return ReadHead(BytesOf(frame)).has_value();
  };
  EXPECT_TRUE(with_bytes(TableOp::kPush, kTableBodyMax, 1));
  EXPECT_FALSE(with_bytes(TableOp::kPush, kTableBodyMax + 1, 1));
  EXPECT_FALSE(with_bytes(TableOp::kHello, 65, 0));
  EXPECT_FALSE(with_bytes(TableOp::kCounts, 1, 0));
  EXPECT_FALSE(with_bytes(TableOp::kInit, 15, 2));     // two keys need 16 bytes
  EXPECT_FALSE(with_bytes(TableOp::kPull, 8, 5'000));  // tables
  EXPECT_FALSE(with_bytes(static_cast<TableOp>(99), 0, 0));
}

TEST(TableFrameTest, AHelloSaysAgainWhatWasWritten) {
  const TableHello hello{.server = 1, .servers = 3, .job = 5, .incarnation = 8};
  EXPECT_EQ(DecodeHello(AlignedBody(EncodeHello(hello)).bytes()), hello);
  EXPECT_FALSE(DecodeHello(AlignedBody("short").bytes()).has_value());
}

TEST(TableFrameTest, ReadsSayAgainWhatWasWritten) {
  const std::array<uint64_t, 3> some = {1, 2, UINT64_MAX};
  const std::array<TableKeys, 2> reads = {TableKeys{4, some}, TableKeys{5, {}}};
  const AlignedBody body(EncodeReads(reads));
  const auto read = DecodeReads(2, body.bytes());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ((*read)[0].table, 4u);
  EXPECT_TRUE(std::ranges::equal((*read)[0].keys, some));
  EXPECT_TRUE((*read)[1].keys.empty());
  EXPECT_FALSE(DecodeReads(1, body.bytes()).has_value()) << "something is left";
  EXPECT_FALSE(DecodeReads(3, body.bytes()).has_value());
}

TEST(TableFrameTest, APushSaysAgainWhatWasWritten) {
  const PushTag tag{.set = 11,
                    .batch = {{0, 4}, {9, 12}},
                    .worker = {.worker = 1, .incarnation = 2},
                    .recovery = 3};
  const std::array<uint64_t, 2> keys = {7, 8};
  const std::array<float, 4> values = {1, 2, 3, 4};
  const std::array<SentGradient, 2> sent = {
      SentGradient{{.table = 0, .keys = keys, .values = values}, 2},
      SentGradient{{.table = 1, .keys = {}, .values = {}}, 8}};
  const std::string text = EncodePush(tag, sent);
  const AlignedBody body(text);
  const auto read = DecodePush(2, body.bytes());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->tag.set, tag.set);
  EXPECT_EQ(read->tag.batch, tag.batch);
  EXPECT_EQ(read->tag.worker, tag.worker);
  EXPECT_EQ(read->tag.recovery, tag.recovery);
  EXPECT_TRUE(std::ranges::equal(read->gradients[0].gradient.keys, keys));
  EXPECT_TRUE(std::ranges::equal(read->gradients[0].gradient.values, values));
  EXPECT_TRUE(read->gradients[1].gradient.keys.empty());
  for (size_t size = 0; size < text.size(); ++size) {
    const AlignedBody cut(std::string_view(text).substr(0, size));
    EXPECT_FALSE(DecodePush(2, cut.bytes()).has_value()) << size;
  }
}

TEST(TableFrameTest, AnOverlapSaysAgainWhatWasWritten) {
  const std::string text = EncodeOverlap({.parts = {{3, 5}, {5, 1'000}}, .why = "in part"});
  const AlignedBody body(text);
  const auto read = DecodeOverlap(body.bytes());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->parts, (std::vector<OrdinalRange>{{3, 5}, {5, 1'000}}));
  EXPECT_EQ(read->why, "in part");
  for (size_t size = 0; size < 8 + 2 * 16; ++size) {
    const AlignedBody cut(std::string_view(text).substr(0, size));
    EXPECT_FALSE(DecodeOverlap(cut.bytes()).has_value()) << size;
  }
  const AlignedBody empty_part(EncodeOverlap({.parts = {{3, 3}}, .why = {}}));
  EXPECT_FALSE(DecodeOverlap(empty_part.bytes()).has_value());
}

TEST(TableFrameTest, RoutingAndImagesComeThrough) {
  TableRouting routing(3);
  routing.Move({1, 2}, 0);
  const std::string routed = EncodeRouting(routing);
  EXPECT_EQ(DecodeRouting(std::as_bytes(std::span(routed))), routing);
  const std::string asked = EncodeGive({.id = 7, .to = 2});
  const auto give = DecodeGive(std::as_bytes(std::span(asked)));
  ASSERT_TRUE(give.has_value());
  EXPECT_EQ(give->id, 7u);
  EXPECT_EQ(give->to, 2u);
  const std::string body = EncodeImages({.snapshot = 9, .images = {"12345678", "", "abc"}});
  const auto images = DecodeImages(3, std::as_bytes(std::span(body)));
  ASSERT_TRUE(images.has_value());
  EXPECT_EQ(images->snapshot, 9u);
  EXPECT_EQ(images->images, (std::vector<std::string>{"12345678", "", "abc"}));
  EXPECT_FALSE(DecodeImages(2, std::as_bytes(std::span(body))).has_value());
  EXPECT_FALSE(DecodeImages(4, std::as_bytes(std::span(body))).has_value());
}

}  // namespace
}  // namespace paceline::ps
