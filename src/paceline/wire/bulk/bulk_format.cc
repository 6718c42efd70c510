#include "paceline/wire/bulk/bulk_format.h"

#include <algorithm>
#include <cstring>

#include "openssl/evp.h"
#include "openssl/hmac.h"
#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/judge.h"
#include "paceline/wire/codec/numbers.h"

namespace paceline::wire {
namespace {

static_assert(kBulkMagic.size() == 16);

constexpr size_t kWhyBytesMax = 512;
// Values of a request's second word.
constexpr uint32_t kCopy = 1;
constexpr uint32_t kStored = 2;
constexpr uint32_t kTest = 3;
static_assert(kStoredChunkTextMax + 64 <= kBulkRequestBytesMax);

absl::Status Bad(std::string_view why) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, why);
}

std::string WithLength(std::string body) {
  std::string text;
  AppendNumber(&text, static_cast<uint32_t>(body.size()));
  return text + body;
}

}  // namespace

BulkProof ProveBulk(std::string_view token, BulkSide side, const BulkNonce& server,
                    const BulkNonce& client) {
  std::string text = side == BulkSide::kClient ? "paceline bulk client" : "paceline bulk server";
  text.append(reinterpret_cast<const char*>(server.data()), server.size());
  text.append(reinterpret_cast<const char*>(client.data()), client.size());
  BulkProof proof{};
  unsigned int size = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), proof.data(), &size);
  CHECK(done != nullptr && size == proof.size(), "SHA-256 is there");
  return proof;
}

std::string EncodeBulk(const BulkRequest& request) {
  std::string text;
  if (request.stored.has_value()) {
    AppendNumber(&text, uint32_t{0});
    AppendNumber(&text, kStored);
    return WithLength(text + EncodeChunk(*request.stored));
  }
  if (request.is_test) {
    AppendNumber(&text, uint32_t{0});
    AppendNumber(&text, kTest);
    return WithLength(std::move(text));
  }
  AppendNumber(&text, request.rank.value());
  AppendNumber(&text, request.is_copy ? kCopy : uint32_t{0});
  AppendNumber(&text, request.saved.generation);
  AppendNumber(&text, request.saved.step);
  AppendNumber(&text, request.saved.branch);
  AppendNumber(&text, request.root);
  AppendNumber(&text, request.first_chunk);
  text += request.place;
  return WithLength(std::move(text));
}

absl::StatusOr<BulkRequest> ParseBulkRequest(std::string_view bytes) {
  if (bytes.size() > kBulkRequestBytesMax) return Bad("the request is too long");
  NumberTaker taker(bytes);
  BulkRequest request;
  request.rank = Rank(taker.Number<uint32_t>());
  const auto flags = taker.Number<uint32_t>();
  if (flags == kStored) {
    request.stored = ParseChunk(taker.Bytes(taker.left()));
    if (!request.stored.has_value()) return Bad("there is no such chunk");
    if (request.rank != Rank(0)) return Bad("a chunk of storage is of no rank");
    return request;
  }
  if (flags == kTest) {
    if (request.rank != Rank(0) || !taker.is_whole()) return Bad("a test of a link is of no rank");
    request.is_test = true;
    return request;
  }
  request.is_copy = flags == kCopy;
  request.saved.generation = taker.Number<uint64_t>();
  request.saved.step = taker.Number<int64_t>();
  request.saved.branch = taker.Number<uint64_t>();
  request.root = taker.Number<uint64_t>();
  request.first_chunk = taker.Number<uint64_t>();
  request.place = taker.Bytes(taker.left());
  if (!taker.is_whole() || flags > kCopy) return Bad("the request is cut off");
  // The place becomes a part of a path.
  if (!IsName(request.place)) return Bad("the place is not a name");
  if (request.rank.value() > kRankMax || request.saved.step < 0 ||
      request.saved.generation > kGenerationMax || request.saved.branch > kBranchMax) {
    return Bad("there is no such step");
  }
  return request;
}

uint64_t BulkFacts::BytesOf(size_t chunk) const {
  const size_t of_file = file_chunks();
  const uint64_t size = chunk < of_file ? file_bytes : notes_bytes;
  const size_t index = chunk < of_file ? chunk : chunk - of_file;
  return std::min(kBulkChunkBytes, size - index * kBulkChunkBytes);
}

std::string EncodeBulk(const BulkAnswer& answer) {
  std::string text;
  AppendNumber(&text, static_cast<uint32_t>(answer.kind));
  if (answer.kind != BulkAnswer::Kind::kImage) {
    text += answer.why.substr(0, kWhyBytesMax);
    return WithLength(std::move(text));
  }
  const BulkFacts& facts = answer.facts;
  for (const uint64_t number : {facts.world_size, facts.file_bytes, facts.head_bytes,
                                facts.notes_bytes, facts.root, facts.flags}) {
    AppendNumber(&text, number);
  }
  text.append(reinterpret_cast<const char*>(facts.hashes.data()),
              facts.hashes.size() * sizeof(uint64_t));
  return WithLength(std::move(text));
}

absl::StatusOr<BulkAnswer> ParseBulkAnswer(std::string_view bytes) {
  if (bytes.size() > kBulkAnswerBytesMax) return Bad("the answer is too long");
  NumberTaker taker(bytes);
  BulkAnswer answer;
  const auto kind = taker.Number<uint32_t>();
  if (kind > static_cast<uint32_t>(BulkAnswer::Kind::kLater)) return Bad("no such answer");
  answer.kind = static_cast<BulkAnswer::Kind>(kind);
  if (answer.kind != BulkAnswer::Kind::kImage) {
    answer.why = taker.Bytes(taker.left());
    if (!taker.is_whole() || answer.why.size() > kWhyBytesMax) return Bad("the answer is cut off");
    return answer;
  }
  BulkFacts& facts = answer.facts;
  for (uint64_t* number : {&facts.world_size, &facts.file_bytes, &facts.head_bytes,
                           &facts.notes_bytes, &facts.root, &facts.flags}) {
    *number = taker.Number<uint64_t>();
  }
  if (facts.file_bytes > kBulkImageBytesMax / 2 || facts.notes_bytes > kBulkImageBytesMax / 2 ||
      facts.head_bytes > facts.file_bytes || facts.world_size > UINT32_MAX) {
    return Bad("the image has sizes that cannot be");
  }
  const size_t count = facts.file_chunks() + facts.notes_chunks();
  if (taker.left() != count * sizeof(uint64_t)) return Bad("there is not one hash for each chunk");
  facts.hashes.resize(count);
  const std::string_view hashes = taker.Bytes(taker.left());
  if (count > 0) std::memcpy(facts.hashes.data(), hashes.data(), hashes.size());
  if (!taker.is_whole()) return Bad("the answer is cut off");
  return answer;
}

}  // namespace paceline::wire
