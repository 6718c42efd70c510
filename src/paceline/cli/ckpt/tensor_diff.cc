#include "paceline/cli/ckpt/tensor_diff.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "paceline/base/check.h"
#include "paceline/base/hex.h"

namespace paceline::cli {
namespace {

template <class T>
T Load(std::span<const std::byte> element) {
  CHECK(element.size() == sizeof(T), "an element of another size");
  T value;
  std::memcpy(&value, element.data(), sizeof(T));
  return value;
}

template <class T>
std::string Digits(T value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  return {text, end.ptr};
}

// IEEE 754 binary16: 1 sign bit, 5 of the exponent, 10 of the fraction.
float FromHalf(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const float sign = (bits >> 15) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : std::copysign(NAN, sign);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

}  // namespace

std::string ElementText(ckpt::DType dtype, std::span<const std::byte> element) {
  switch (dtype) {
    case ckpt::DType::kBool: return Load<uint8_t>(element) != 0 ? "true" : "false";
    case ckpt::DType::kU8: return Digits(unsigned{Load<uint8_t>(element)});
    case ckpt::DType::kI8: return Digits(int{Load<int8_t>(element)});
    case ckpt::DType::kI16: return Digits(Load<int16_t>(element));
    case ckpt::DType::kU16: return Digits(Load<uint16_t>(element));
    case ckpt::DType::kI32: return Digits(Load<int32_t>(element));
    case ckpt::DType::kU32: return Digits(Load<uint32_t>(element));
    case ckpt::DType::kI64: return Digits(Load<int64_t>(element));
    case ckpt::DType::kU64: return Digits(Load<uint64_t>(element));
    case ckpt::DType::kF32: return Digits(Load<float>(element));
    case ckpt::DType::kF64: return Digits(Load<double>(element));
    case ckpt::DType::kF16: return Digits(FromHalf(Load<uint16_t>(element)));
    case ckpt::DType::kBF16:
      return Digits(std::bit_cast<float>(uint32_t{Load<uint16_t>(element)} << 16));
    case ckpt::DType::kF8E4M3:
    case ckpt::DType::kF8E5M2: return "0x" + Hex(Load<uint8_t>(element), 2);
  }
  return "?";
}

std::optional<ElementDiff> DiffElements(ckpt::DType dtype, const std::vector<uint64_t>& shape,
                                        std::span<const std::byte> one,
                                        std::span<const std::byte> other) {
  const size_t each = ckpt::BytesOf(dtype);
  CHECK(one.size() == other.size(), "two tensors of different sizes");
  CHECK(one.size() % each == 0, "no whole number of elements");
  if (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0) return std::nullopt;
  ElementDiff diff{.elements = one.size() / each};
  uint64_t first = 0;
  for (uint64_t i = 0; i < diff.elements; ++i) {
    if (std::memcmp(&one[i * each], &other[i * each], each) == 0) continue;
    if (diff.differing++ == 0) first = i;
  }
  diff.one = ElementText(dtype, one.subspan(first * each, each));
  diff.other = ElementText(dtype, other.subspan(first * each, each));
  diff.first.resize(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    diff.first[axis] = first % shape[axis];
    first /= shape[axis];
  }
  return diff;
}

}  // namespace paceline::cli
