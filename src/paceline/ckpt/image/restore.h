#pragma once

// Copies an image back into tensors and verifies it on the way. An image is bytes in a slot or a
// file, with the hashes of its chunks. A chunk that does not match its hash is an error.

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

// Where one tensor goes: all of box.bytes, or a part of them.
struct Target {
  TensorBox box;  // from the image's header; one target a box
  // The target's memory, exactly: box.bytes bytes without `part`, else an array of part->shape.
  // Restore checks the size before it writes.
  std::span<std::byte> data;
  std::optional<Region> part = {};
};

// Reads an image chunk by chunk.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  virtual uint64_t size() const = 0;
  // The whole chunk with that index, valid until the next call. It begins at a multiple of 4096,
  // and the bytes behind it up to the next multiple are readable.
  virtual Result<std::span<const std::byte>> Chunk(size_t index) = 0;
  // Slow sources get the indices of the coming reads, in this order.
  virtual bool wants_order() const { return false; }
  virtual void Expect(std::span<const size_t> /*chunks*/) {}
  // Tells the source that other hosts read the other chunks. The source then stops reading ahead,
  // because two hosts would read the same bytes.
  virtual void ExpectSome() {}
  // True if every chunk stays valid as long as the image exists.
  virtual bool is_stable() const { return false; }
  // Bytes of all chunks that were read. Repeated reads of one chunk count once.
  uint64_t bytes_read() const { return bytes_read_; }

 protected:
  uint64_t bytes_read_ = 0;
};

// `image` must begin at a multiple of 4096 if it is to be drained.
class MemorySource final : public ChunkSource {
 public:
  explicit MemorySource(std::span<const std::byte> image) : image_(image) {}
  uint64_t size() const override { return image_.size(); }
  Result<std::span<const std::byte>> Chunk(size_t index) override;
  bool is_stable() const override { return true; }

 private:
  const std::span<const std::byte> image_;
};

// Reads and does not map, so that a truncated file is an error and not a signal.
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
  std::optional<size_t> held_;  // chunk in buffer_
};

// kDamaged names the first chunk that does not match its hash.
Result<void> Verify(ChunkSource* image, std::span<const uint64_t> hashes);

// The image's header, from verified chunks.
Result<Image> ReadHead(ChunkSource* image, std::span<const uint64_t> hashes);

// The whole content as text, verified; for notes. kTooLarge: longer than `bytes_max`.
Result<std::string> ReadAll(ChunkSource* image, std::span<const uint64_t> hashes,
                            uint64_t bytes_max);

// Copies each target's bytes. Reads only chunks that targets need, each once, and verifies them
// during the copy. kInvalid: a part is outside its box, or the memory has another size than the
// tensor; no target was changed. After kDamaged the targets' content is undefined: the caller must
// restore all of them from elsewhere, or give up.
Result<void> Restore(ChunkSource* image, std::span<const uint64_t> hashes,
                     std::vector<Target> targets);

}  // namespace paceline::ckpt
