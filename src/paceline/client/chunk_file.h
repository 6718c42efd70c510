#pragma once

// A checkpoint's file in storage, read in chunks through this rank's agent, because hosts share the
// reading (docs/formats/chunk_socket.md). If the coming reads are known, several chunks are
// requested at once.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/result.h"
#include "paceline/ckpt/disk/aligned_buffer.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/model/stored_chunk.h"

namespace paceline::client {

class ChunkFile final : public ckpt::ChunkSource {
 public:
  static constexpr size_t kLinksMax = 4;
  // Chunks that are requested or in memory, beside the current one.
  static constexpr size_t kAheadMax = 8;

  // `socket` is the agent's. `key` is like "step-7-g1/shard-00003.safetensors". Requests nothing
  // yet.
  ChunkFile(std::string socket, std::string key, uint64_t bytes, std::vector<uint64_t> hashes);
  ~ChunkFile() override;

  uint64_t size() const override { return bytes_; }
  // kBusy with EAGAIN: the agent, or the whole storage, does not answer now. kSystem with EIO: this
  // file cannot be read now. kDamaged, kNotFound.
  Result<std::span<const std::byte>> Chunk(size_t index) override;
  bool wants_order() const override { return true; }
  void Expect(std::span<const size_t> chunks) override;

 private:
  using Bytes = std::shared_ptr<ckpt::AlignedBuffer>;  // one owner at a time; handed on and back

  void Bring(Fd* link);
  Result<Bytes> Await(size_t index);
  Result<Bytes> Ask(Fd* link, size_t index);
  Bytes Spare();
  uint64_t BytesOf(size_t index) const;
  void Join();

  const std::string socket_;
  const std::string key_;
  const uint64_t bytes_;
  const std::vector<uint64_t> hashes_;
  Fd link_;     // for chunks that were not expected
  Bytes last_;  // the last result of Chunk
  size_t last_index_ = SIZE_MAX;

  std::mutex mutex_;  // guards the members below, except the threads
  std::condition_variable changed_;
  std::deque<size_t> expected_;                           // in reading order
  std::map<size_t, std::optional<Result<Bytes>>> ahead_;  // requested, or already received
  std::vector<Bytes> spare_;
  std::deque<Fd> links_;  // one a thread, to end their waits
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace paceline::client
