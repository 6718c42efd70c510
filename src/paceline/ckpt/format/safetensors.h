#pragma once

// A rank's file: safetensors, with boxes of sharded tensors described as in PyTorch's distributed
// checkpoint (DCP). So `safetensors` and torch's HuggingFaceStorageReader read it without paceline.
// docs/formats/checkpoint.md specifies the bytes.
//
//   u64 N (little endian) | N bytes of JSON, padded with spaces | tensor data, packed
//
// The header is padded so that the data begins at a multiple of kAlignment. A slot in memory is
// then the file itself and can be written past the page cache.
//
// An image may be two such files, one behind the other: changing tensors, then frozen ones. The
// first file's header is padded until the file ends at the end of a chunk. So each chunk of the
// image, with its hash, belongs to one file, and a frozen file that is already in storage needs no
// copy.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"

namespace paceline::ckpt {

inline constexpr uint64_t kAlignment = 4096;
// Limits of a reader: size of the header, and dimensions of a tensor.
inline constexpr uint64_t kHeaderBytesMax = uint64_t{64} << 20;
inline constexpr size_t kDimensionsMax = 32;

// In the order of safetensors.
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
// kInvalid for an unknown name.
Result<DType> DTypeOf(std::string_view name);

// One box of a tensor: the whole tensor, or the part that this rank holds.
struct TensorBox {
  std::string key;  // the tensor's name, unique in a file
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape = {};   // of the box, in elements
  std::vector<uint64_t> offset = {};  // of the box in the whole tensor, one a dimension
  uint64_t begin = 0;                 // of its bytes, in the image
  uint64_t bytes = 0;
  bool is_frozen = false;  // in the image's second file
  uint64_t content = 0;    // hash of its bytes (ckpt/storage/tensor_contents.h); 0: unknown
  bool operator==(const TensorBox&) const = default;
};

struct Image {
  std::string head;  // the start of the first file: N, JSON, padding
  // Ordered by file, then by key; their bytes have the same order.
  std::vector<TensorBox> boxes;
  std::map<std::string, std::string> metadata;  // written by the caller, any text
  uint64_t size = 0;                            // of the image
  // Offset of the image's second file, a multiple of kChunkBytes. 0: the image is one file.
  uint64_t second_at = 0;
  std::string second_head;
};

// Names of tensors that are no parameters of a module: buffers, and tensors outside of modules. As
// metadata for LayOut, and read from a header; empty if the writer did not record them.
std::map<std::string, std::string> LooseMetadata(const std::vector<std::string>& names);
std::vector<std::string> LooseNames(const Image& image);

// Sets each box's place and makes the headers; ignores `begin` and `bytes` of the argument. With
// frozen boxes the image has two files. kInvalid: two boxes have one key, a name is not UTF-8, an
// offset does not fit the shape, or the file would be too large.
Result<Image> LayOut(std::vector<TensorBox> boxes, std::map<std::string, std::string> metadata);

// Parses the header of a file of `file_size` bytes; `head` is at least the header. kInvalid: holes,
// overlaps, data behind the end, sizes that do not fit the shape, unknown types. kTooLarge: `head`
// is shorter than the header, whose size HeadBytes returns. For an image of two files this
// describes the first file, and `second_at` is the offset of the other.
Result<Image> ParseHead(std::string_view head, uint64_t file_size);

// Adds the second file, with the header `head`, to the result of ParseHead. Fails as ParseHead.
Result<void> ParseSecondHead(std::string_view head, Image* image);

// The JSON of a header, without length and padding; and a header of that JSON whose data begins at
// `data_at`. kInvalid: the JSON does not fit before `data_at`.
std::string_view JsonOfHead(std::string_view head);
Result<std::string> PaddedHead(std::string_view json, uint64_t data_at);

// The number of bytes before the data, from a file's first eight bytes.
Result<uint64_t> HeadBytes(std::string_view first_eight);

}  // namespace paceline::ckpt
