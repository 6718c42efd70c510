#pragma once

// A rank's file: safetensors, with the boxes of sharded tensors described as PyTorch's distributed
// checkpoint (DCP) describes them, so that `safetensors` and torch's HuggingFaceStorageReader read
// it without paceline. docs/formats/checkpoint.md has it byte by byte.
//
//   u64 N (little endian) | N bytes of JSON, padded with spaces | tensor data, packed
//
// The header is padded so that the data begins at a multiple of kAlignment: a slot in memory is
// then the file itself, and can be written without the page cache.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"

namespace paceline::ckpt {

inline constexpr uint64_t kAlignment = 4096;
// What a reader takes: headers up to here, tensors up to so many dimensions.
inline constexpr uint64_t kHeaderBytesMax = uint64_t{64} << 20;
inline constexpr size_t kDimensionsMax = 32;

// In the order of safetensors' own names.
enum class DType {
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
  kF8E4M3,
  kF8E5M2
};
std::string_view NameOf(DType dtype);  // "BF16"
size_t BytesOf(DType dtype);
// kInvalid for a name that is none.
Result<DType> DTypeOf(std::string_view name);

// One box of a tensor: the whole of it, or what this rank has of it.
struct TensorBox {
  std::string key;  // of the tensor, unique in a file
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape = {};   // of the box, in elements
  std::vector<uint64_t> offset = {};  // of the box in the whole tensor; one number a dimension
  uint64_t begin = 0;                 // of its bytes in the file
  uint64_t bytes = 0;
  bool operator==(const TensorBox&) const = default;
};

struct Image {
  std::string head;                             // the file's first bytes: N, JSON, padding
  std::vector<TensorBox> boxes;                 // by key, which is also their order in the file
  std::map<std::string, std::string> metadata;  // free text of the writer
  uint64_t size = 0;                            // of the file
};

// Gives each box its place and makes the header; `begin` and `bytes` of the argument are ignored.
// kInvalid: two boxes of one key, a name that is not UTF-8, offsets that do not fit the
// shape, or more bytes than a file may have.
Result<Image> LayOut(std::vector<TensorBox> boxes, std::map<std::string, std::string> metadata);

// The header of a file of `file_size` bytes that begins with `head` (at least its header).
// kInvalid for whatever safetensors does not allow: holes, overlaps, data beyond the end,
// sizes that do not fit the shape, unknown types. kTooLarge: `head` is shorter than the header,
// whose size is then what HeadBytes tells.
Result<Image> ParseHead(std::string_view head, uint64_t file_size);

// Bytes before the data, from the first eight of a file.
Result<uint64_t> HeadBytes(std::string_view first_eight);

}  // namespace paceline::ckpt
