#include "paceline/ckpt/format/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "paceline/base/json.h"
#include "paceline/base/json_limit.h"
#include "paceline/base/result.h"
#include "paceline/base/text.h"
#include "paceline/base/utf8.h"
#include "paceline/ckpt/chunk_size.h"

namespace paceline::ckpt {
namespace {

using nlohmann::json;

constexpr uint64_t kFileBytesMax = uint64_t{1} << 50;
constexpr uint64_t kHeaderDepthMax = 8;  // of the header's JSON, whose depth is 3
constexpr char kMetadata[] = "__metadata__";
constexpr char kLoose[] = "PACELINE_LOOSE";
// Names from torch/distributed/checkpoint/_hf_utils.py
constexpr char kShardingInfo[] = "DCP_SHARDING_INFO";
constexpr char kSavedOffsets[] = "saved_offsets";
// Key in the first of two files: the second one may follow it.
constexpr char kBeside[] = "PACELINE_FROZEN";

struct DTypeRow {
  DType dtype;
  std::string_view name;
  size_t bytes;
};
constexpr std::array<DTypeRow, 15> kDTypes = {{{DType::kBool, "BOOL", 1},
                                               {DType::kU8, "U8", 1},
                                               {DType::kI8, "I8", 1},
                                               {DType::kI16, "I16", 2},
                                               {DType::kU16, "U16", 2},
                                               {DType::kF16, "F16", 2},
                                               {DType::kBF16, "BF16", 2},
                                               {DType::kI32, "I32", 4},
                                               {DType::kU32, "U32", 4},
                                               {DType::kF32, "F32", 4},
                                               {DType::kF64, "F64", 8},
                                               {DType::kI64, "I64", 8},
                                               {DType::kU64, "U64", 8},
                                               {DType::kF8E4M3, "F8_E4M3", 1},
                                               {DType::kF8E5M2, "F8_E5M2", 1}}};

Failure Bad(std::string_view what) { return Failure{FailureKind::kInvalid, std::string(what)}; }

Failure BadBox(const std::string& key, std::string_view what) {
  return Bad(Concat("tensor \"", CleanText(key), "\" ", what));
}

// Elements times size; none if that exceeds any file.
std::optional<uint64_t> Volume(const std::vector<uint64_t>& shape, size_t element) {
  uint64_t bytes = element;
  for (const uint64_t extent : shape) {
    if (extent != 0 && bytes > kFileBytesMax / extent) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

std::string LittleEndian64(uint64_t value) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

Result<uint64_t> Number(const json& value) {
  if (!value.is_number_unsigned()) return Bad("a number is not one");
  return value.get<uint64_t>();
}

Result<std::vector<uint64_t>> Numbers(const json& value) {
  if (!value.is_array() || value.size() > kDimensionsMax) return Bad("a shape is not one");
  std::vector<uint64_t> numbers;
  for (const json& item : value) {
    ASSIGN_OR_RETURN(const uint64_t number, Number(item));
    numbers.push_back(number);
  }
  return numbers;
}

const json* Find(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// JSON of a scalar tensor has three containers in 50 bytes. Each dimension takes 4 more bytes.
Result<void> CheckShape(std::string_view text, const JsonShape& shape) {
  if (JsonLimit::PerByte(text.size(), kHeaderDepthMax, 8, 3).Holds(shape)) return {};
  return Bad("the header has more in it than one of its size has");
}

Result<TensorBox> ParseBox(const std::string& key, const json& value, const json& sharding,
                           uint64_t data_begin, uint64_t data_bytes) {
  if (!value.is_object()) return BadBox(key, "is not described");
  const json* dtype = Find(value, "dtype");
  const json* shape = Find(value, "shape");
  const json* offsets = Find(value, "data_offsets");
  if (dtype == nullptr || !dtype->is_string() || shape == nullptr || offsets == nullptr) {
    return BadBox(key, "lacks dtype, shape or data_offsets");
  }
  TensorBox box;
  box.key = key;
  ASSIGN_OR_RETURN(box.dtype, DTypeOf(dtype->get_ref<const std::string&>()));
  ASSIGN_OR_RETURN(box.shape, Numbers(*shape));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> range, Numbers(*offsets));
  if (range.size() != 2 || range[0] > range[1] || range[1] > data_bytes) {
    return BadBox(key, "lies outside the file");
  }
  box.begin = data_begin + range[0];
  box.bytes = range[1] - range[0];
  if (Volume(box.shape, BytesOf(box.dtype)) != box.bytes) {
    return BadBox(key, "has another size than its shape");
  }
  box.offset.assign(box.shape.size(), 0);
  if (!sharding.is_object()) return box;
  const json* saved = Find(sharding, key.c_str());
  const json* at = saved != nullptr && saved->is_object() ? Find(*saved, kSavedOffsets) : nullptr;
  if (at == nullptr) return BadBox(key, "has no entry in DCP_SHARDING_INFO");
  ASSIGN_OR_RETURN(box.offset, Numbers(*at));
  if (box.offset.size() != box.shape.size()) return BadBox(key, "has offsets of another rank");
  return box;
}

// Checks that tensors cover the range without holes and overlaps.
Result<void> CheckCover(const std::vector<TensorBox>& boxes, uint64_t begin, uint64_t end) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const TensorBox& box : boxes) ranges.emplace_back(box.begin, box.begin + box.bytes);
  std::sort(ranges.begin(), ranges.end());
  for (const auto& [from, to] : ranges) {
    if (from != begin) return Bad("tensors overlap or leave a hole");
    begin = to;
  }
  if (begin != end) return Bad("bytes behind the last tensor belong to none");
  return {};
}

}  // namespace

std::string_view NameOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }
size_t BytesOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].bytes; }

Result<DType> DTypeOf(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return Bad(Concat("unknown type \"", CleanText(name), "\""));
}

namespace {

// Lays out one file. The header is padded so that the file's size is a multiple of `end_at`.
Result<Image> LayOutFile(std::vector<TensorBox> boxes, std::map<std::string, std::string> metadata,
                         uint64_t end_at) {
  Image image;
  json head = json::object();
  json sharding = json::object();
  uint64_t at = 0;
  for (TensorBox& box : boxes) {
    if (!IsUtf8(box.key)) return BadBox(box.key, "has a name that is not UTF-8");
    if (box.key == kMetadata || head.contains(box.key)) return BadBox(box.key, "is named twice");
    if (box.shape.size() > kDimensionsMax) return BadBox(box.key, "has too many dimensions");
    if (box.offset.empty()) box.offset.assign(box.shape.size(), 0);
    if (box.offset.size() != box.shape.size())
      return BadBox(box.key, "has offsets of another rank");
    const std::optional<uint64_t> bytes = Volume(box.shape, BytesOf(box.dtype));
    if (!bytes.has_value() || at + *bytes > kFileBytesMax) return BadBox(box.key, "is too large");
    box.begin = at;
    box.bytes = *bytes;
    at += *bytes;
    head[box.key] = {
        {"dtype", NameOf(box.dtype)}, {"shape", box.shape}, {"data_offsets", {box.begin, at}}};
    sharding[box.key] = {{kSavedOffsets, box.offset}};
  }
  json own = json::object();
  for (const auto& [name, text] : metadata) {
    if (!IsUtf8(name) || !IsUtf8(text)) return Bad("metadata that is not UTF-8");
    own[name] = text;
  }
  own["format"] = "pt";
  own["DCP_VERSION"] = "1.0";
  own[kShardingInfo] = PrintJson(sharding);
  head[kMetadata] = own;
  const std::string text = PrintJson(head);
  uint64_t begin = (8 + text.size() + kAlignment - 1) / kAlignment * kAlignment;
  begin += (end_at - (begin + at) % end_at) % end_at;
  ASSIGN_OR_RETURN(image.head, PaddedHead(text, begin));
  for (TensorBox& box : boxes) box.begin += begin;
  image.boxes = std::move(boxes);
  image.metadata = std::move(metadata);
  image.size = begin + at;
  return image;
}

}  // namespace

std::map<std::string, std::string> LooseMetadata(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  return {{kLoose, PrintJson(json(names))}};
}

std::vector<std::string> LooseNames(const Image& image) {
  std::vector<std::string> names;
  const auto found = image.metadata.find(kLoose);
  if (found == image.metadata.end()) return names;
  const json parsed = ParseJson(found->second);
  if (!parsed.is_array()) return names;
  for (const json& one : parsed) {
    if (one.is_string()) names.push_back(one.get<std::string>());
  }
  return names;
}

Result<Image> LayOut(std::vector<TensorBox> boxes, std::map<std::string, std::string> metadata) {
  std::sort(boxes.begin(), boxes.end(),
            [](const TensorBox& a, const TensorBox& b) { return a.key < b.key; });
  const auto twin =
      std::adjacent_find(boxes.begin(), boxes.end(),
                         [](const TensorBox& a, const TensorBox& b) { return a.key == b.key; });
  if (twin != boxes.end()) return BadBox(twin->key, "is named twice");
  const auto frozen = std::stable_partition(boxes.begin(), boxes.end(),
                                            [](const TensorBox& box) { return !box.is_frozen; });
  std::vector<TensorBox> second_boxes(std::make_move_iterator(frozen),
                                      std::make_move_iterator(boxes.end()));
  boxes.erase(frozen, boxes.end());
  if (second_boxes.empty()) return LayOutFile(std::move(boxes), std::move(metadata), 1);
  ASSIGN_OR_RETURN(Image second, LayOutFile(std::move(second_boxes), metadata, 1));
  metadata[kBeside] = "beside";
  ASSIGN_OR_RETURN(Image image, LayOutFile(std::move(boxes), std::move(metadata), kChunkBytes));
  image.second_at = image.size;
  image.second_head = std::move(second.head);
  for (TensorBox& box : second.boxes) box.begin += image.second_at;
  std::move(second.boxes.begin(), second.boxes.end(), std::back_inserter(image.boxes));
  image.size += second.size;
  return image;
}

std::string_view JsonOfHead(std::string_view head) {
  head.remove_prefix(std::min<size_t>(head.size(), 8));
  return head.substr(0, head.find_last_not_of(' ') + 1);
}

Result<std::string> PaddedHead(std::string_view json, uint64_t data_at) {
  if (data_at > kHeaderBytesMax) return Bad("the header is too large");
  if (data_at < 8 + json.size()) return Bad("the header does not fit before the data");
  std::string head = LittleEndian64(data_at - 8);
  head.append(json);
  head.resize(data_at, ' ');
  return head;
}

Result<uint64_t> HeadBytes(std::string_view first_eight) {
  if (first_eight.size() < 8) return Bad("shorter than a header");
  uint64_t size = 0;
  for (size_t i = 0; i < 8; ++i) {
    size |= static_cast<uint64_t>(static_cast<unsigned char>(first_eight[i])) << (8 * i);
  }
  if (size < 2 || size > kHeaderBytesMax) return Bad("the header's size is absurd");
  return 8 + size;
}

namespace {

// The offset of a second file: the end of the first file's tensors, rounded up to a chunk. 0 if the
// first file reaches the end of the image.
uint64_t SecondAt(const Image& image, uint64_t begin) {
  if (!image.metadata.contains(kBeside)) return 0;
  uint64_t end = begin;
  for (const TensorBox& box : image.boxes) end = std::max(end, box.begin + box.bytes);
  return end < image.size && end % kChunkBytes == 0 ? end : 0;
}

}  // namespace

Result<Image> ParseHead(std::string_view head, uint64_t file_size) {
  ASSIGN_OR_RETURN(const uint64_t begin, HeadBytes(head));
  if (begin > file_size) return Bad("the header is longer than the file");
  if (head.size() < begin) {
    return Failure{FailureKind::kTooLarge, "the header is longer than what was read"};
  }
  const std::string_view body = head.substr(8, begin - 8);
  const JsonShape shape = ShapeOfJson(body, kHeaderDepthMax);
  RETURN_IF_ERROR(CheckShape(body, shape));
  const json parsed = ParseJson(body);
  if (!parsed.is_object()) return Bad("the header is not a JSON object");
  if (parsed.size() != shape.members) return Bad("the header names a tensor twice");

  Image image;
  image.head = std::string(head.substr(0, begin));
  image.size = file_size;
  json sharding;
  if (const json* own = Find(parsed, kMetadata); own != nullptr) {
    if (!own->is_object()) return Bad("__metadata__ is not an object");
    for (const auto& [name, text] : own->items()) {
      if (!text.is_string()) return Bad("__metadata__ holds something that is not text");
      image.metadata[name] = text.get<std::string>();
    }
    if (const auto info = image.metadata.find(kShardingInfo); info != image.metadata.end()) {
      RETURN_IF_ERROR(CheckShape(info->second, ShapeOfJson(info->second, kHeaderDepthMax)));
      sharding = ParseJson(info->second);
      if (!sharding.is_object()) return Bad("DCP_SHARDING_INFO is not a JSON object");
    }
  }
  for (const auto& [key, value] : parsed.items()) {
    if (key == kMetadata) continue;
    ASSIGN_OR_RETURN(TensorBox box, ParseBox(key, value, sharding, begin, file_size - begin));
    image.boxes.push_back(std::move(box));
  }
  image.second_at = SecondAt(image, begin);
  const uint64_t end = image.second_at > 0 ? image.second_at : file_size;
  RETURN_IF_ERROR(CheckCover(image.boxes, begin, end));
  return image;
}

Result<void> ParseSecondHead(std::string_view head, Image* image) {
  ASSIGN_OR_RETURN(Image second, ParseHead(head, image->size - image->second_at));
  if (second.second_at > 0) return Bad("a second file has another one behind it");
  std::set<std::string> keys;
  for (const TensorBox& box : image->boxes) keys.insert(box.key);
  for (TensorBox& box : second.boxes) {
    if (keys.contains(box.key)) return BadBox(box.key, "is named twice");
    box.begin += image->second_at;
    box.is_frozen = true;
    image->boxes.push_back(std::move(box));
  }
  image->second_head = std::move(second.head);
  return {};
}

}  // namespace paceline::ckpt
