#pragma once

// The messages of the bulk channel, over which agents exchange checkpoint images. Images do not use
// gRPC, which copies a message several times and keeps all of it in memory.
// docs/formats/bulk_channel.md is the specification, docs/adr/0009 the decision.
//
//   server: greeting            client: hello            server: proof
//   client: request             server: answer, then the image's bytes from the asked chunk on
//
// Numbers are little-endian. The input is not trusted: sizes are checked before memory is
// allocated.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/ids.h"
#include "paceline/model/stored_chunk.h"

namespace paceline::wire {

// A chunk of an image: the unit of its hashes, and of resuming after a broken connection.
inline constexpr uint64_t kBulkChunkBytes = uint64_t{4} << 20;
inline constexpr uint64_t kBulkImageBytesMax = uint64_t{1} << 41;
inline constexpr size_t kBulkRequestBytesMax = 512;
// The hashes of the largest image, and the other fields.
inline constexpr size_t kBulkAnswerBytesMax =
    (kBulkImageBytesMax / kBulkChunkBytes + 2) * sizeof(uint64_t) + 1024;

using BulkNonce = std::array<unsigned char, 32>;
using BulkProof = std::array<unsigned char, 32>;

// The server's first bytes: 16 of magic, then its nonce.
inline constexpr std::string_view kBulkMagic = "paceline bulk 1\n";
inline constexpr size_t kBulkGreetingBytes = 16 + sizeof(BulkNonce);
// The client's first bytes: its nonce, then its proof.
inline constexpr size_t kBulkHelloBytes = sizeof(BulkNonce) + sizeof(BulkProof);

// HMAC-SHA256 with the job's token over the side and both nonces. The token is never sent, and a
// proof cannot be reused by a third party.
enum class BulkSide { kClient, kServer };
BulkProof ProveBulk(std::string_view token, BulkSide side, const BulkNonce& server,
                    const BulkNonce& client);

struct BulkRequest {
  Rank rank;  // of the rank that saved the image
  std::string place;
  bool is_copy = false;
  SavedStep saved;
  uint64_t root = 0;         // of the image; 0: any
  uint64_t first_chunk = 0;  // counted over the file's chunks, then the notes'
  // Instead of the above: a chunk of a file in storage, sent as an image of one chunk.
  std::optional<StoredChunk> stored = {};
  // Instead of the above: one chunk of any bytes, to test the link.
  bool is_test = false;
  bool operator==(const BulkRequest&) const = default;
};
// With its length first.
std::string EncodeBulk(const BulkRequest& request);
// Without the length. INVALID_ARGUMENT: malformed.
absl::StatusOr<BulkRequest> ParseBulkRequest(std::string_view bytes);

// An image's data, sent before its bytes.
struct BulkFacts {
  uint64_t world_size = 0;
  uint64_t file_bytes = 0;
  uint64_t head_bytes = 0;  // of the file
  uint64_t notes_bytes = 0;
  uint64_t root = 0;
  uint64_t flags = 0;
  std::vector<uint64_t> hashes;  // of the file's chunks, then of the notes'
  bool operator==(const BulkFacts&) const = default;

  size_t file_chunks() const {
    return static_cast<size_t>((file_bytes + kBulkChunkBytes - 1) / kBulkChunkBytes);
  }
  size_t notes_chunks() const {
    return static_cast<size_t>((notes_bytes + kBulkChunkBytes - 1) / kBulkChunkBytes);
  }
  uint64_t BytesOf(size_t chunk) const;
};

struct BulkAnswer {
  enum class Kind : uint32_t {
    kImage = 0,
    kNotHere = 1,  // and never will be
    kLater = 2,    // being fetched to this host
  };
  Kind kind = Kind::kNotHere;
  std::string why;  // if it is not an image
  BulkFacts facts;
  bool operator==(const BulkAnswer&) const = default;
};
std::string EncodeBulk(const BulkAnswer& answer);
absl::StatusOr<BulkAnswer> ParseBulkAnswer(std::string_view bytes);

}  // namespace paceline::wire
