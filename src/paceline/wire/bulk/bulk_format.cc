#include "paceline/wire/bulk/bulk_format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "openssl/evp.h"
#include "openssl/hmac.h"
#include "paceline/base/check.h"
#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/judge.h"

namespace paceline::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they lie");
static_assert(kBulkMagic.size() == 16);

constexpr size_t kWhyBytesMax = 512;
// Values of a request's second word.
constexpr uint32_t kCopy = 1;
constexpr uint32_t kStored = 2;
static_assert(kStoredChunkTextMax + 64 <= kBulkRequestBytesMax);

template <class T>
void Put(std::string* text, T value) {
  text->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Takes numbers off the front. After the first missing one all are missing.
class Taker {
 public:
  explicit Taker(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T Number() {
    T value{};
    const std::string_view bytes = Bytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view Bytes(size_t size) {
    if (size > rest_.size()) is_cut_off_ = true;
    if (is_cut_off_) return {};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  bool is_whole() const { return !is_cut_off_ && rest_.empty(); }
  size_t left() const { return is_cut_off_ ? 0 : rest_.size(); }

 private:
  std::string_view rest_;
  bool is_cut_off_ = false;
};

absl::Status Bad(std::string_view why) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, why);
}

std::string WithLength(std::string body) {
  std::string text;
  Put(&text, static_cast<uint32_t>(body.size()));
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
    Put(&text, uint32_t{0});
    Put(&text, kStored);
    return WithLength(text + EncodeChunk(*request.stored));
  }
  Put(&text, request.rank.value());
  Put(&text, request.is_copy ? kCopy : uint32_t{0});
  Put(&text, request.saved.generation);
  Put(&text, request.saved.step);
  Put(&text, request.saved.branch);
  Put(&text, request.root);
  Put(&text, request.first_chunk);
  text += request.place;
  return WithLength(std::move(text));
}

absl::StatusOr<BulkRequest> ParseBulkRequest(std::string_view bytes) {
  if (bytes.size() > kBulkRequestBytesMax) return Bad("the request is too long");
  Taker taker(bytes);
  BulkRequest request;
  request.rank = Rank(taker.Number<uint32_t>());
  const auto flags = taker.Number<uint32_t>();
  if (flags == kStored) {
    request.stored = ParseChunk(taker.Bytes(taker.left()));
    if (!request.stored.has_value()) return Bad("there is no such chunk");
    if (request.rank != Rank(0)) return Bad("a chunk of storage is of no rank");
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
  Put(&text, static_cast<uint32_t>(answer.kind));
  if (answer.kind != BulkAnswer::Kind::kImage) {
    text += answer.why.substr(0, kWhyBytesMax);
    return WithLength(std::move(text));
  }
  const BulkFacts& facts = answer.facts;
  for (const uint64_t number : {facts.world_size, facts.file_bytes, facts.head_bytes,
                                facts.notes_bytes, facts.root, facts.flags}) {
    Put(&text, number);
  }
  text.append(reinterpret_cast<const char*>(facts.hashes.data()),
              facts.hashes.size() * sizeof(uint64_t));
  return WithLength(std::move(text));
}

absl::StatusOr<BulkAnswer> ParseBulkAnswer(std::string_view bytes) {
  if (bytes.size() > kBulkAnswerBytesMax) return Bad("the answer is too long");
  Taker taker(bytes);
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
