#pragma once

// A rank's file: safetensors, with the boxes of sharded tensors described as PyTorch's distributed
// checkpoint (DCP) describes them, so that `safetensors` and torch's HuggingFaceStorageReader read
// it without paceline. docs/formats/checkpoint.md has it byte by byte.
//
//   u64 N (little endian) | N bytes of JSON, padded with spaces | tensor data, packed
//
// The header is padded so that the data begins at a multiple of kAlignment: a slot in memory is
// then the file itself, and can be written without the page cache.
//
// An image can be two such files, one behind the other: what changes, and what is frozen. The first
// one's header is padded until it ends where a chunk ends, so each chunk of the image, with its
// hash, is a chunk of one file, and a frozen file that is in storage already needs no copy.

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
  uint64_t begin = 0;                 // of its bytes in the image
  uint64_t bytes = 0;
  bool is_frozen = false;  // it is in the image's second file
  uint64_t content =
      0;  // hash of its bytes (ckpt/storage/tensor_contents.h), where it is known; else 0
  bool operator==(const TensorBox&) const = default;
};

struct Image {
  std::string head;  // the first file's first bytes: N, JSON, padding
  // In their order in the image: by key, those of the first file before those of the second.
  std::vector<TensorBox> boxes;
  std::map<std::string, std::string> metadata;  // free text of the writer
  uint64_t size = 0;                            // of the image
  // Of an image of two files: where the second one begins, a multiple of kChunkBytes. 0: there is
  // one.
  uint64_t second_at = 0;
  std::string second_head;
};

// Names of tensors that belong to no parameter of a module: buffers, and what is in no module. As
// LayOut's metadata, and out of a parsed header; none where the writer did not tell.
std::map<std::string, std::string> LooseMetadata(const std::vector<std::string>& names);
std::vector<std::string> LooseNames(const Image& image);

// Gives each box its place and makes the headers; `begin` and `bytes` of the argument are ignored.
// With frozen boxes the image has two files. kInvalid: two boxes of one key, a name that is not
// UTF-8, offsets that do not fit the shape, or more bytes than a file may have.
Result<Image> LayOut(std::vector<TensorBox> boxes, std::map<std::string, std::string> metadata);

// The header of a file of `file_size` bytes that begins with `head` (at least its header).
// kInvalid for whatever safetensors does not allow: holes, overlaps, data beyond the end,
// sizes that do not fit the shape, unknown types. kTooLarge: `head` is shorter than the header,
// whose size is then what HeadBytes tells. Of an image of two files the answer is of the first one,
// with `second_at` where the other begins.
Result<Image> ParseHead(std::string_view head, uint64_t file_size);

// Adds the second file, whose header is `head`, to what ParseHead said of the first. As ParseHead.
Result<void> ParseSecondHead(std::string_view head, Image* image);

// The JSON of a header without its length and padding, and the header again, with the data at
// `data_at`. kInvalid: it does not fit before there.
std::string_view JsonOfHead(std::string_view head);
Result<std::string> PaddedHead(std::string_view json, uint64_t data_at);

// Bytes before the data, from the first eight of a file.
Result<uint64_t> HeadBytes(std::string_view first_eight);

}  // namespace paceline::ckpt
