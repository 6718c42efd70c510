#include "paceline/wire/bulk/bulk_server.h"

#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/wire/bulk/channel_proof.h"

namespace paceline::wire {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

absl::StatusOr<std::unique_ptr<BulkServer>> BulkServer::Start(const std::string& listen,
                                                              const Credentials& credentials,
                                                              Source source) {
  std::unique_ptr<BulkServer> server(new BulkServer(std::move(source)));
  BulkServer* const raw = server.get();
  ASSIGN_OR_RETURN(
      server->server_,
      ProvenServer::Start(
          {.listen = listen, .magic = kBulkMagic, .connections_max = kConnectionsMax}, credentials,
          [raw](BulkSocket* socket) { raw->Serve(socket).IgnoreError(); }));
  return server;
}

BulkServer::~BulkServer() {
  is_ending_ = true;
  server_.reset();
}

absl::Status BulkServer::Serve(BulkSocket* socket) const {
  while (!is_ending_) {
    uint32_t size = 0;
    RETURN_IF_ERROR(socket->Read(&size, sizeof(size), Clock::now() + kIdlePatience));
    if (size > kBulkRequestBytesMax) return absl::InvalidArgumentError("a request too long");
    std::string bytes(size, '\0');
    const DialDeadline until = Clock::now() + kProofPatience;
    RETURN_IF_ERROR(socket->Read(bytes.data(), bytes.size(), until));
    ASSIGN_OR_RETURN(const BulkRequest request, ParseBulkRequest(bytes));
    const BulkImage image = source_(request);
    const std::string answer = EncodeBulk(image.answer);
    RETURN_IF_ERROR(socket->Write(answer.data(), answer.size(), Clock::now() + kChunkPatience));
    if (image.answer.kind != BulkAnswer::Kind::kImage) continue;
    RETURN_IF_ERROR(Give(socket, image, request.first_chunk));
  }
  return absl::OkStatus();
}

absl::Status BulkServer::Give(BulkSocket* socket, const BulkImage& image,
                              uint64_t first_chunk) const {
  const BulkFacts& facts = image.answer.facts;
  const size_t of_file = facts.file_chunks();
  for (uint64_t chunk = first_chunk; chunk < facts.hashes.size(); ++chunk) {
    if (is_ending_ || (image.await && !image.await(chunk))) {
      return absl::AbortedError("there is no more of it");
    }
    const bool is_file = chunk < of_file;
    const uint64_t at = (is_file ? chunk : chunk - of_file) * kBulkChunkBytes;
    const std::byte* memory = (is_file ? image.file : image.notes).data() + at;
    // Not sendfile, which transfers each page separately: over loopback it takes twice as long, and
    // twice the receiver's CPU (bench/checkpoint/peer_fetch.py).
    RETURN_IF_ERROR(socket->Write(memory, facts.BytesOf(chunk), Clock::now() + kChunkPatience));
  }
  return absl::OkStatus();
}

}  // namespace paceline::wire
