#pragma once

// The bytes of the bulk channel, over which agents hand each other checkpoint images. Bulk bytes do
// not go over gRPC: a message there is copied several times and held whole in memory.
// docs/formats/bulk_channel.md is the specification, docs/adr/0009 the decision.
//
//   server: greeting            client: hello            server: proof
//   client: request             server: answer, then the image's bytes from the asked chunk on
//
// Numbers are little-endian. Everything here may come from a stranger: sizes are bounded before
// anything is allocated.

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

// A chunk of an image, the unit of its hashes and of going on after a broken connection.
inline constexpr uint64_t kBulkChunkBytes = uint64_t{4} << 20;
inline constexpr uint64_t kBulkImageBytesMax = uint64_t{1} << 41;
inline constexpr size_t kBulkRequestBytesMax = 512;
// Hashes of the largest image, and the rest.
inline constexpr size_t kBulkAnswerBytesMax =
    (kBulkImageBytesMax / kBulkChunkBytes + 2) * sizeof(uint64_t) + 1024;

using BulkNonce = std::array<unsigned char, 32>;
using BulkProof = std::array<unsigned char, 32>;

// The server's first bytes: 16 of magic, then its nonce.
inline constexpr std::string_view kBulkMagic = "paceline bulk 1\n";
inline constexpr size_t kBulkGreetingBytes = 16 + sizeof(BulkNonce);
// The client's: its nonce, then its proof.
inline constexpr size_t kBulkHelloBytes = sizeof(BulkNonce) + sizeof(BulkProof);

// HMAC-SHA256 under the job's token of who speaks and of both nonces. Neither side sends the token,
// and what one side has said is of no use to a third.
enum class BulkSide { kClient, kServer };
BulkProof ProveBulk(std::string_view token, BulkSide side, const BulkNonce& server,
                    const BulkNonce& client);

struct BulkRequest {
  Rank rank;  // that saved the image
  std::string place;
  bool is_copy = false;
  SavedStep saved;
  uint64_t root = 0;         // of the image; 0: whatever it is
  uint64_t first_chunk = 0;  // of the file's chunks and then the notes'
  // A chunk of a file in storage instead, and nothing above: it comes as an image of one chunk.
  std::optional<StoredChunk> stored = {};
  bool operator==(const BulkRequest&) const = default;
};
// With its length in front.
std::string EncodeBulk(const BulkRequest& request);
// Without it. INVALID_ARGUMENT.
absl::StatusOr<BulkRequest> ParseBulkRequest(std::string_view bytes);

// What an image is, before its bytes.
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
    kNotHere = 1,  // and will not be
    kLater = 2,    // it is on its way to here
  };
  Kind kind = Kind::kNotHere;
  std::string why;  // unless it is an image
  BulkFacts facts;
  bool operator==(const BulkAnswer&) const = default;
};
std::string EncodeBulk(const BulkAnswer& answer);
absl::StatusOr<BulkAnswer> ParseBulkAnswer(std::string_view bytes);

}  // namespace paceline::wire
