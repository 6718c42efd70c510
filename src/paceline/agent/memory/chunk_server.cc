#include "paceline/agent/memory/chunk_server.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "paceline/base/socket_bytes.h"
#include "paceline/base/status_macros.h"

namespace paceline::agent {
namespace {

constexpr size_t kWhyBytesMax = 512;

ChunkEnd EndOf(FailureKind kind) {
  switch (kind) {
    case FailureKind::kDamaged:
    case FailureKind::kInvalid: return ChunkEnd::kDamaged;
    case FailureKind::kNotFound: return ChunkEnd::kGone;
    case FailureKind::kSystem: return ChunkEnd::kFailed;
    default: return ChunkEnd::kAway;
  }
}

bool Answer(int fd, ChunkEnd end, const void* bytes, size_t size) {
  const std::array<uint32_t, 2> head = {static_cast<uint32_t>(end), static_cast<uint32_t>(size)};
  return SendAll(fd, head.data(), sizeof(head)) && SendAll(fd, bytes, size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChunkServer>> ChunkServer::Listen(const std::string& path,
                                                                 Source source) {
  std::unique_ptr<ChunkServer> server(new ChunkServer(std::move(source)));
  ChunkServer* const raw = server.get();
  ASSIGN_OR_RETURN(server->server_, LocalServer::Listen(path, kConnectionsMax,
                                                        [raw](const Fd& fd) { raw->Serve(fd); }));
  return server;
}

void ChunkServer::Serve(const Fd& fd) const {
  for (;;) {
    uint32_t size = 0;
    if (!ReceiveAll(fd.get(), &size, sizeof(size)) || size > kStoredChunkTextMax) return;
    std::string text(size, '\0');
    if (!ReceiveAll(fd.get(), text.data(), text.size())) return;
    const std::optional<StoredChunk> chunk = ParseChunk(text);
    if (!chunk.has_value()) return;
    const Result<HeldChunk> held = source_(*chunk);
    const std::string_view why =
        held.ok() ? "" : std::string_view(held.failure().message).substr(0, kWhyBytesMax);
    const bool is_told = held.ok()
                             ? Answer(fd.get(), ChunkEnd::kHere, (*held)->data.get(), (*held)->size)
                             : Answer(fd.get(), EndOf(held.failure().kind), why.data(), why.size());
    if (!is_told) return;
  }
}

}  // namespace paceline::agent
