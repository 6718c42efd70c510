#pragma once

// From an image back into tensors, verified on the way. An image is bytes that stand somewhere (a
// slot, a mapped or read file) with the hashes of its chunks; what does not agree with them never
// reaches a tensor unnoticed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "paceline/ckpt/format/safetensors.h"

namespace paceline::ckpt {

// Where the bytes of one tensor shall go; `data` has room for box.bytes.
struct Target {
  TensorBox box;  // as it stands in the image's header
  void* data = nullptr;
};

// DATA_LOSS names the first chunk that does not agree with its hash.
absl::Status Verify(std::span<const std::byte> image, std::span<const uint64_t> hashes);

// The image's header, after its chunks were verified.
absl::StatusOr<Image> ReadHead(std::span<const std::byte> image, std::span<const uint64_t> hashes);

// Copies each target's bytes. Only chunks that hold something of a target are looked at, each once,
// and each is verified while it is copied. After DATA_LOSS the targets hold anything: the caller
// restores them all from somewhere else, or gives up.
absl::Status Restore(std::span<const std::byte> image, std::span<const uint64_t> hashes,
                     std::vector<Target> targets);

}  // namespace paceline::ckpt
