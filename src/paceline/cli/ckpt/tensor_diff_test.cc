#include "paceline/cli/ckpt/tensor_diff.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace paceline::cli {
namespace {

using ckpt::DType;

template <class T>
std::string TextOf(DType dtype, T value) {
  const std::array<T, 1> one = {value};
  return ElementText(dtype, std::as_bytes(std::span(one)));
}

TEST(TensorDiff, FirstAndCountOfWhatDiffers) {
  const std::array<float, 6> one = {0, 1, 2, 3, 4, 5};
  std::array<float, 6> other = one;
  EXPECT_FALSE(DiffElements(DType::kF32, {2, 3}, std::as_bytes(std::span(one)),
                            std::as_bytes(std::span(other)))
                   .has_value());
  other[4] = 4.5;
  other[5] = -1;
  const auto diff = DiffElements(DType::kF32, {2, 3}, std::as_bytes(std::span(one)),
                                 std::as_bytes(std::span(other)));
  ASSERT_TRUE(diff.has_value());
  EXPECT_EQ(diff->differing, 2u);
  EXPECT_EQ(diff->elements, 6u);
  EXPECT_EQ(diff->first, (std::vector<uint64_t>{1, 1}));
  EXPECT_EQ(diff->one, "4");
  EXPECT_EQ(diff->other, "4.5");
}

TEST(TensorDiff, BitsAreCompared) {
  const std::array<double, 2> one = {0.0, std::numeric_limits<double>::quiet_NaN()};
  const std::array<double, 2> other = {-0.0, std::numeric_limits<double>::quiet_NaN()};
  const auto diff = DiffElements(DType::kF64, {2}, std::as_bytes(std::span(one)),
                                 std::as_bytes(std::span(other)));
  ASSERT_TRUE(diff.has_value());
  EXPECT_EQ(diff->differing, 1u);
  EXPECT_EQ(diff->other, "-0");
}

TEST(TensorDiff, EmptyTensorsAndScalars) {
  EXPECT_FALSE(DiffElements(DType::kI64, {0, 4}, {}, {}).has_value());
  const std::array<int64_t, 1> one = {7};
  const std::array<int64_t, 1> other = {8};
  const auto diff =
      DiffElements(DType::kI64, {}, std::as_bytes(std::span(one)), std::as_bytes(std::span(other)));
  ASSERT_TRUE(diff.has_value());
  EXPECT_TRUE(diff->first.empty());
}

TEST(TensorDiff, ValuesOfEveryType) {
  EXPECT_EQ(TextOf<uint8_t>(DType::kBool, 1), "true");
  EXPECT_EQ(TextOf<int8_t>(DType::kI8, -7), "-7");
  EXPECT_EQ(TextOf<uint8_t>(DType::kU8, 200), "200");
  EXPECT_EQ(TextOf<uint64_t>(DType::kU64, ~uint64_t{0}), "18446744073709551615");
  EXPECT_EQ(TextOf<float>(DType::kF32, 0.1f), "0.1");
  // The greatest, the least normal, a subnormal one and infinity of binary16.
  EXPECT_EQ(TextOf<uint16_t>(DType::kF16, 0x7bff), "65504");
  EXPECT_EQ(TextOf<uint16_t>(DType::kF16, 0x0400), "6.1035156e-05");
  EXPECT_EQ(TextOf<uint16_t>(DType::kF16, 0x8001), "-5.9604645e-08");
  EXPECT_EQ(TextOf<uint16_t>(DType::kF16, 0xfc00), "-inf");
  EXPECT_EQ(TextOf<uint16_t>(DType::kBF16, 0x3fc0), "1.5");
  EXPECT_EQ(TextOf<uint8_t>(DType::kF8E4M3, 0x7e), "0x7e");
}

}  // namespace
}  // namespace paceline::cli
