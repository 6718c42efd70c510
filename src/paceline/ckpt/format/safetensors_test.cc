#include "paceline/ckpt/format/safetensors.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::ckpt {
namespace {

std::vector<TensorBox> SomeBoxes() {
  return {{.key = "model.weight", .dtype = DType::kBF16, .shape = {3, 5}, .offset = {6, 0}},
          {.key = "model.bias", .dtype = DType::kF32, .shape = {3}},
          {.key = "step", .dtype = DType::kI64},  // a scalar
          {.key = "empty", .dtype = DType::kU8, .shape = {0, 7}}};
}

// Parses `json` as an unpadded header, in a file with `data` bytes behind it.
Result<Image> Parse(const std::string& json, uint64_t data) {
  std::string head(8, '\0');
  head[0] = static_cast<char>(json.size() & 0xff);
  head[1] = static_cast<char>(json.size() >> 8);
  return ParseHead(head + json, 8 + json.size() + data);
}

TEST(Safetensors, WhatWasLaidOutIsRead) {
  const auto made = LayOut(SomeBoxes(), {{"paceline.step", "7"}});
  ASSERT_TRUE(made.ok()) << made.failure().message;
  EXPECT_EQ(made->head.size() % kAlignment, 0u);
  EXPECT_EQ(made->size, made->head.size() + 30 + 12 + 8);
  const auto read = ParseHead(made->head, made->size);
  ASSERT_TRUE(read.ok()) << read.failure().message;
  EXPECT_EQ(read->boxes, made->boxes);
  EXPECT_EQ(read->metadata.at("paceline.step"), "7");
  EXPECT_EQ(*HeadBytes(made->head), made->head.size());
}

// The bytes must never change, because later versions read them.
TEST(Safetensors, TheHeaderIsAlwaysTheSame) {
  const auto made = LayOut({{.key = "w", .dtype = DType::kF32, .shape = {2}, .offset = {4}}}, {});
  ASSERT_TRUE(made.ok());
  const std::string json =
      R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":[4]}}",)"
      R"("DCP_VERSION":"1.0","format":"pt"},"w":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}})";
  EXPECT_EQ(made->head.substr(8, json.size()), json);
  EXPECT_EQ(made->head.substr(0, 8), std::string("\xf8\x0f\0\0\0\0\0\0", 8));
  EXPECT_EQ(made->head.find_first_not_of(' ', 8 + json.size()), std::string::npos);
}

TEST(Safetensors, FilesOfOthersNeedNoShardingInfo) {
  const auto read = Parse(R"({"a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}})", 4);
  ASSERT_TRUE(read.ok()) << read.failure().message;
  EXPECT_EQ(read->boxes.at(0).offset, (std::vector<uint64_t>{0, 0}));
}

TEST(Safetensors, BadLayoutsAreRefused) {
  const std::vector<std::vector<TensorBox>> bad = {
      {{.key = "a"}, {.key = "a"}},
      {{.key = "__metadata__"}},
      {{.key = "\xff"}},
      {{.key = "a", .shape = {2}, .offset = {0, 0}}},
      {{.key = "a", .shape = {uint64_t{1} << 40, uint64_t{1} << 40}}},
      {{.key = "a", .shape = std::vector<uint64_t>(33, 1)}},
  };
  for (const auto& boxes : bad) {
    EXPECT_EQ(LayOut(boxes, {}).failure().kind, FailureKind::kInvalid);
  }
  EXPECT_FALSE(LayOut({}, {{"name", "\xff"}}).ok());
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Safetensors, HostileHeadersAreRefused) {
  const std::vector<std::pair<std::string, uint64_t>> bad = {
      {"[]", 0},
      {"{", 0},
      {R"({"a":1})", 0},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3},  // beyond the end
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5},  // an uncovered byte
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4},  // backwards
      {R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}})", 4},  // another size
      {R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4},
      {R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}})", 4},
      {R"({"a":{"dtype":"X8","shape":[4],"data_offsets":[0,4]}})", 4},
      {R"({"a":{"dtype":"U8","shape":[18446744073709551615,18446744073709551615],)"
       R"("data_offsets":[0,1]}})",
       1},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3},  // an overlap
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       2},  // a key twice
      {std::string(100, '['), 0},
      {"{\"a\":[" + Repeated("[],", 100'000) + "0]}", 0},  // 30 times its bytes in memory
      {R"({"__metadata__":{"x":1}})", 0},
      {R"({"__metadata__":{"DCP_SHARDING_INFO":"[]"}})", 0},
      {R"({"__metadata__":{"DCP_SHARDING_INFO":"{}"},)"
       R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       4},  // not listed
      {R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"a\":{\"saved_offsets\":[0,0]}}"},)"
       R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       4},
  };
  for (const auto& [json, data] : bad) {
    EXPECT_EQ(Parse(json, data).failure().kind, FailureKind::kInvalid) << json;
  }
}

TEST(Safetensors, AHeaderThatWasNotReadWholeIsToldApart) {
  const auto made = LayOut(SomeBoxes(), {});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(ParseHead(std::string_view(made->head).substr(0, 100), made->size).failure().kind,
            FailureKind::kTooLarge);
  EXPECT_EQ(ParseHead(made->head, 100).failure().kind, FailureKind::kInvalid);
  EXPECT_FALSE(HeadBytes("1234567").ok());
  EXPECT_FALSE(HeadBytes("\xff\xff\xff\xff\xff\xff\xff\xff").ok());
  EXPECT_FALSE(ParseHead("", 0).ok());
}

TEST(Safetensors, EveryTypeHasANameAndASize) {
  for (int i = 0; i < 15; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(*DTypeOf(NameOf(dtype)), dtype);
    EXPECT_GE(BytesOf(dtype), 1u);
  }
  EXPECT_FALSE(DTypeOf("").ok());
}

}  // namespace
}  // namespace paceline::ckpt
