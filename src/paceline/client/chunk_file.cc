#include "paceline/client/chunk_file.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/base/socket_bytes.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/image/chunk_copy.h"

namespace paceline::client {
namespace {

static_assert(kStoredChunkBytes == ckpt::kChunkBytes);

constexpr size_t kWhyBytesMax = 512;

Failure Away(std::string_view why) {
  return {FailureKind::kBusy, Concat("the agent brings no chunks of storage: ", why), EAGAIN};
}

Result<Fd> Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Away("the path of its socket is too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* any = reinterpret_cast<const sockaddr*>(&address);
  if (!fd.is_open() || ::connect(fd.get(), any, sizeof(address)) != 0) {
    return Away(std::strerror(errno));
  }
  return fd;
}

Failure FailureOf(uint32_t end, std::string why) {
  switch (static_cast<ChunkEnd>(end)) {
    case ChunkEnd::kDamaged: return {FailureKind::kDamaged, std::move(why)};
    case ChunkEnd::kGone: return {FailureKind::kNotFound, std::move(why)};
    case ChunkEnd::kFailed: return {FailureKind::kSystem, std::move(why), EIO};
    default: return {FailureKind::kBusy, std::move(why), EAGAIN};
  }
}

}  // namespace

ChunkFile::ChunkFile(std::string socket, std::string key, uint64_t bytes,
                     std::vector<uint64_t> hashes)
    : socket_(std::move(socket)), key_(std::move(key)), bytes_(bytes), hashes_(std::move(hashes)) {}

ChunkFile::~ChunkFile() { Join(); }

void ChunkFile::Join() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    expected_.clear();
    // Ends the threads' waits for the agent.
    for (const Fd& link : links_) {
      if (link.is_open()) ::shutdown(link.get(), SHUT_RDWR);
    }
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  links_.clear();
  is_ending_ = false;
}

uint64_t ChunkFile::BytesOf(size_t index) const {
  return std::min<uint64_t>(kStoredChunkBytes, bytes_ - index * kStoredChunkBytes);
}

void ChunkFile::Expect(std::span<const size_t> chunks) {
  Join();
  ahead_.clear();
  if (chunks.size() < 2) return;
  expected_.assign(chunks.begin(), chunks.end());
  for (size_t i = 0; i < std::min(kLinksMax, chunks.size()); ++i) {
    threads_.emplace_back([this, link = &links_.emplace_back()] { Bring(link); });
  }
}

void ChunkFile::Bring(Fd* link) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock,
                  [this] { return is_ending_ || expected_.empty() || ahead_.size() < kAheadMax; });
    if (is_ending_ || expected_.empty()) return;
    const size_t index = expected_.front();
    expected_.pop_front();
    ahead_[index];
    lock.unlock();
    Result<Bytes> brought = Ask(link, index);
    lock.lock();
    ahead_[index] = std::move(brought);
    changed_.notify_all();
  }
}

Result<std::span<const std::byte>> ChunkFile::Chunk(size_t index) {
  if (last_index_ != index) {
    if (last_ != nullptr) {
      const std::lock_guard lock(mutex_);
      spare_.push_back(std::exchange(last_, nullptr));
    }
    last_index_ = SIZE_MAX;
    ASSIGN_OR_RETURN(last_, Await(index));
    last_index_ = index;
    bytes_read_ += BytesOf(index);
  }
  return std::span<const std::byte>(last_->Get(0), BytesOf(index));
}

Result<ChunkFile::Bytes> ChunkFile::Await(size_t index) {
  {
    std::unique_lock lock(mutex_);
    const auto found = ahead_.find(index);
    if (found != ahead_.end()) {
      changed_.wait(lock, [&] { return found->second.has_value(); });
      Result<Bytes> brought = *std::move(found->second);
      ahead_.erase(found);
      changed_.notify_all();
      return brought;
    }
    // No thread has started on this chunk.
    std::erase(expected_, index);
  }
  return Ask(&link_, index);
}

ChunkFile::Bytes ChunkFile::Spare() {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) return std::make_shared<ckpt::AlignedBuffer>();
  Bytes taken = std::move(spare_.back());
  spare_.pop_back();
  return taken;
}

Result<ChunkFile::Bytes> ChunkFile::Ask(Fd* link, size_t index) {
  if (!link->is_open()) {
    ASSIGN_OR_RETURN(Fd made, Connect(socket_));
    const std::lock_guard lock(mutex_);
    if (is_ending_) return Away("it is not wanted any more");
    *link = std::move(made);
  }
  const std::string text =
      EncodeChunk({.file = key_, .file_bytes = bytes_, .index = index, .hash = hashes_.at(index)});
  const auto size = static_cast<uint32_t>(text.size());
  std::string request(reinterpret_cast<const char*>(&size), sizeof(size));
  request += text;
  std::array<uint32_t, 2> head{};
  const bool is_answered = SendAll(link->get(), request.data(), request.size()) &&
                           ReceiveAll(link->get(), head.data(), sizeof(head));
  const auto [end, bytes] = head;
  const bool is_here = is_answered && end == static_cast<uint32_t>(ChunkEnd::kHere);
  if (is_here && bytes == BytesOf(index)) {
    Bytes memory = Spare();
    if (ReceiveAll(link->get(), memory->Get(ckpt::RoundUpToPage(bytes)), bytes)) return memory;
  } else if (is_answered && !is_here && bytes <= kWhyBytesMax) {
    std::string why(bytes, '\0');
    if (ReceiveAll(link->get(), why.data(), bytes)) return FailureOf(end, std::move(why));
  }
  const std::lock_guard lock(mutex_);
  link->Close();
  return Away("it has gone");
}

}  // namespace paceline::client
