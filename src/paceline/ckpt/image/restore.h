#pragma once

// From an image back into tensors, verified on the way. An image is bytes that stand somewhere (a
// slot, a file) with the hashes of its chunks; what does not agree with them never reaches a tensor
// unnoticed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/disk/aligned_buffer.h"
#include "paceline/ckpt/disk/disk.h"
#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/image/region.h"

namespace paceline::ckpt {

// Where the bytes of one tensor shall go: all of box.bytes, or a part of them.
struct Target {
  TensorBox box;  // as it stands in the image's header; one target a box
  // All the memory that the target has, and not more than it has: box.bytes without `part`, and the
  // bytes of an array of part->shape with it. Restore compares the two before it writes a byte.
  std::span<std::byte> data;
  std::optional<Region> part = {};
};

// Gives an image chunk by chunk.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  virtual uint64_t size() const = 0;
  // Of the chunk with that index, all of it; good until the next call. It begins at a multiple of
  // 4096, and the bytes up to the next multiple behind its end can be read.
  virtual Result<std::span<const std::byte>> Chunk(size_t index) = 0;
  // A source that takes long may begin with what is asked for next, in this order.
  virtual bool wants_order() const { return false; }
  virtual void Expect(std::span<const size_t> /*chunks*/) {}
  // Says that the caller asks for some of the chunks, and other hosts for the others. The source
  // stops reading ahead then: what lies behind a chunk would be read by two hosts.
  virtual void ExpectSome() {}
  // Every chunk stays good as long as the image does.
  virtual bool is_stable() const { return false; }
  // Of all chunks that were brought in; one that is asked for twice running counts once.
  uint64_t bytes_read() const { return bytes_read_; }

 protected:
  uint64_t bytes_read_ = 0;
};

// `image` begins at a multiple of 4096 when it is to be drained.
class MemorySource final : public ChunkSource {
 public:
  explicit MemorySource(std::span<const std::byte> image) : image_(image) {}
  uint64_t size() const override { return image_.size(); }
  Result<std::span<const std::byte>> Chunk(size_t index) override;
  bool is_stable() const override { return true; }

 private:
  const std::span<const std::byte> image_;
};

// Reads, and does not map: a file that somebody cuts off is an error then and no signal.
class FileSource final : public ChunkSource {
 public:
  static Result<std::unique_ptr<FileSource>> Open(const std::string& path, uint64_t size,
                                                  Disk* disk = SystemDisk());
  uint64_t size() const override { return size_; }
  Result<std::span<const std::byte>> Chunk(size_t index) override;
  void ExpectSome() override { disk_->StopReadahead(file_.fd()); }

 private:
  FileSource(Disk* disk, int fd, std::string path, uint64_t size)
      : disk_(disk), file_(disk, fd), path_(std::move(path)), size_(size) {}

  Disk* const disk_;
  const DiskFile file_;
  const std::string path_;
  const uint64_t size_;
  AlignedBuffer buffer_;
  std::optional<size_t> held_;  // the chunk that buffer_ holds
};

// kDamaged names the first chunk that does not agree with its hash.
Result<void> Verify(ChunkSource* image, std::span<const uint64_t> hashes);

// The image's header, after its chunks were verified.
Result<Image> ReadHead(ChunkSource* image, std::span<const uint64_t> hashes);

// All of it as text, verified; for notes. kTooLarge: longer than `bytes_max`.
Result<std::string> ReadAll(ChunkSource* image, std::span<const uint64_t> hashes,
                            uint64_t bytes_max);

// Copies each target's bytes. Only chunks that hold something of a target are looked at, each once,
// and each is verified while it is copied. kInvalid: a part that lies outside its box, or memory of
// another size than the tensor; no target was touched then. After kDamaged the targets hold
// anything: the caller restores them all from somewhere else, or gives up.
Result<void> Restore(ChunkSource* image, std::span<const uint64_t> hashes,
                     std::vector<Target> targets);

}  // namespace paceline::ckpt
