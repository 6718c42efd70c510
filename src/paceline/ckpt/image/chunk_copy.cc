#include "paceline/ckpt/image/chunk_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

// XXH3 for long inputs, written out below because the library cannot copy while it hashes. The
// secret is the library's.
#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "paceline/base/check.h"

namespace paceline::ckpt {
namespace {

// XXH3 of a long input with the default secret of 192 bytes. Each stripe of 64 bytes is mixed into
// eight accumulators; the secret advances by eight bytes a stripe. After 16 stripes (a block) the
// accumulators are scrambled. The last 64 bytes are mixed in once more at the end, with their own
// part of the secret, so only stripes that end before the last byte count as such.
constexpr size_t kStripe = 64;
constexpr size_t kStripesPerBlock = (XXH_SECRET_DEFAULT_SIZE - kStripe) / 8;
constexpr size_t kScrambleAt = XXH_SECRET_DEFAULT_SIZE - kStripe;
constexpr size_t kLastAt = XXH_SECRET_DEFAULT_SIZE - kStripe - 7;
constexpr size_t kMergeAt = 11;
// XXH3 has other algorithms for inputs up to this size.
constexpr size_t kShortMax = 240;

constexpr uint64_t kPrime32_1 = 0x9E3779B1u;
constexpr uint64_t kPrime64_1 = 0x9E3779B185EBCA87u;
constexpr uint64_t kStart[8] = {0xC2B2AE3Du,         kPrime64_1,          0xC2B2AE3D27D4EB4Fu,
                                0x165667B19E3779F9u, 0x85EBCA77C2B2AE63u, 0x85EBCA77u,
                                0x27D4EB2F165667C5u, kPrime32_1};

const std::byte* Secret() { return reinterpret_cast<const std::byte*>(XXH3_kSecret); }

uint64_t Read64(const std::byte* at) {
  static_assert(std::endian::native == std::endian::little, "the format is little endian");
  uint64_t value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

void Mix(const std::byte* stripe, const std::byte* secret, uint64_t* acc) {
  for (size_t i = 0; i < 8; ++i) {
    const uint64_t data = Read64(stripe + 8 * i);
    const uint64_t key = data ^ Read64(secret + 8 * i);
    acc[i ^ 1] += data;
    acc[i] += (key & 0xFFFFFFFFu) * (key >> 32);
  }
}

void Scramble(uint64_t* acc) {
  for (size_t i = 0; i < 8; ++i) {
    acc[i] ^= acc[i] >> 47;
    acc[i] ^= Read64(Secret() + kScrambleAt + 8 * i);
    acc[i] *= kPrime32_1;
  }
}

uint64_t Fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t Merge(const uint64_t* acc, uint64_t size) {
  uint64_t hash = size * kPrime64_1;
  for (size_t i = 0; i < 4; ++i) {
    const std::byte* secret = Secret() + kMergeAt + 16 * i;
    hash += Fold(acc[2 * i] ^ Read64(secret), acc[2 * i + 1] ^ Read64(secret + 8));
  }
  hash ^= hash >> 37;
  hash *= 0x165667919E3779F9u;
  return hash ^ (hash >> 32);
}

// Mixes in whole stripes, beginning at stripe `first` of the block, and copies them to `image`
// unless it is null. Returns the block's next stripe.
size_t MixPortable(std::byte* image, const std::byte* source, size_t stripes, size_t first,
                   uint64_t* acc) {
  for (; stripes > 0; --stripes, source += kStripe) {
    Mix(source, Secret() + 8 * first, acc);
    if (image != nullptr) {
      std::memcpy(image, source, kStripe);
      image += kStripe;
    }
    if (++first < kStripesPerBlock) continue;
    Scramble(acc);
    first = 0;
  }
  return first;
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) __m256i MixHalf(__m256i data, const std::byte* secret,
                                                __m256i acc) {
  const __m256i key =
      _mm256_xor_si256(data, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(secret)));
  const __m256i product = _mm256_mul_epu32(key, _mm256_srli_epi64(key, 32));
  const __m256i swapped = _mm256_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
  return _mm256_add_epi64(product, _mm256_add_epi64(acc, swapped));
}

__attribute__((target("avx2"))) __m256i ScrambleHalf(__m256i acc, const std::byte* secret) {
  const __m256i prime = _mm256_set1_epi32(static_cast<int>(kPrime32_1));
  const __m256i key =
      _mm256_xor_si256(_mm256_xor_si256(acc, _mm256_srli_epi64(acc, 47)),
                       _mm256_loadu_si256(reinterpret_cast<const __m256i*>(secret)));
  const __m256i low = _mm256_mul_epu32(key, prime);
  const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(key, 32), prime);
  return _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
}

template <bool kCopies>
__attribute__((target("avx2"))) size_t MixAvx2(std::byte* image, const std::byte* source,
                                               size_t stripes, size_t first, uint64_t* acc) {
  auto* halves = reinterpret_cast<__m256i*>(acc);
  __m256i acc0 = _mm256_loadu_si256(halves);
  __m256i acc1 = _mm256_loadu_si256(halves + 1);
  for (; stripes > 0; --stripes, source += kStripe) {
    const auto* from = reinterpret_cast<const __m256i*>(source);
    const __m256i data0 = _mm256_loadu_si256(from);
    const __m256i data1 = _mm256_loadu_si256(from + 1);
    if constexpr (kCopies) {
      auto* to = reinterpret_cast<__m256i*>(image);
      _mm256_stream_si256(to, data0);
      _mm256_stream_si256(to + 1, data1);
      image += kStripe;
    }
    const std::byte* secret = Secret() + 8 * first;
    acc0 = MixHalf(data0, secret, acc0);
    acc1 = MixHalf(data1, secret + 32, acc1);
    if (++first < kStripesPerBlock) continue;
    acc0 = ScrambleHalf(acc0, Secret() + kScrambleAt);
    acc1 = ScrambleHalf(acc1, Secret() + kScrambleAt + 32);
    first = 0;
  }
  _mm256_storeu_si256(halves, acc0);
  _mm256_storeu_si256(halves + 1, acc1);
  return first;
}

// Copies with streaming stores; neither side needs to be aligned.
__attribute__((target("avx2"))) void StreamAvx2(std::byte* target, const std::byte* source,
                                                size_t size) {
  const size_t head = std::min<size_t>(size, -reinterpret_cast<uintptr_t>(target) % 32);
  std::memcpy(target, source, head);
  size_t at = head;
  for (; at + 64 <= size; at += 64) {
    const auto* from = reinterpret_cast<const __m256i*>(source + at);
    auto* to = reinterpret_cast<__m256i*>(target + at);
    const __m256i data0 = _mm256_loadu_si256(from);
    const __m256i data1 = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, data0);
    _mm256_stream_si256(to + 1, data1);
  }
  std::memcpy(target + at, source + at, size - at);
}

bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

#endif

size_t Copy(std::byte* image, const std::byte* source, size_t stripes, size_t first,
            uint64_t* acc) {
#if defined(__x86_64__)
  if (HasAvx2()) return MixAvx2<true>(image, source, stripes, first, acc);
#endif
  return MixPortable(image, source, stripes, first, acc);
}

size_t MixOnly(const std::byte* source, size_t stripes, size_t first, uint64_t* acc) {
#if defined(__x86_64__)
  if (HasAvx2()) return MixAvx2<false>(nullptr, source, stripes, first, acc);
#endif
  return MixPortable(nullptr, source, stripes, first, acc);
}

void Stream(std::byte* target, const std::byte* source, size_t size) {
#if defined(__x86_64__)
  if (HasAvx2()) {
    StreamAvx2(target, source, size);
    return;
  }
#endif
  std::memcpy(target, source, size);
}

// Streaming stores are not ordered with others.
void Fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace

uint64_t HashOf(const void* data, size_t size) {
  return CopyFromChunk(static_cast<const std::byte*>(data), size, {});
}

uint64_t CopyFromChunk(const std::byte* chunk, size_t size, std::span<const CopyOut> pieces) {
  // Fits into the L1 cache together with the written bytes.
  constexpr size_t kPart = 16 * kStripesPerBlock * kStripe;
  if (size <= kShortMax) {
    for (const CopyOut& piece : pieces) std::memcpy(piece.target, chunk + piece.begin, piece.size);
    return XXH3_64bits(chunk, size);
  }
  uint64_t acc[8];
  std::copy_n(kStart, 8, acc);
  const size_t stripes_end = (size - 1) / kStripe * kStripe;
  size_t next = 0;  // pieces before this one are complete
  for (size_t begin = 0; begin < size; begin += kPart) {
    const size_t end = std::min(begin + kPart, size);
    MixOnly(chunk + begin, (std::min(end, stripes_end) - std::min(begin, stripes_end)) / kStripe, 0,
            acc);
    for (; next < pieces.size() && pieces[next].begin < end; ++next) {
      const CopyOut& piece = pieces[next];
      const size_t from = std::max(piece.begin, begin);
      const size_t to = std::min(piece.begin + piece.size, end);
      Stream(static_cast<std::byte*>(piece.target) + (from - piece.begin), chunk + from, to - from);
      if (piece.begin + piece.size > end) break;  // the next part continues this piece
    }
  }
  Mix(chunk + size - kStripe, Secret() + kLastAt, acc);
  Fence();
  return Merge(acc, size);
}

ChunkCopier::ChunkCopier(std::byte* image, size_t size) : image_(image), size_(size) {
  CHECK(reinterpret_cast<uintptr_t>(image) % kStripe == 0, "an image begins at a stripe");
  hashes_.reserve(ChunkCount(size));
  BeginChunk();
}

void ChunkCopier::BeginChunk() {
  chunk_begin_ = at_;
  chunk_size_ = std::min(kChunkBytes, size_ - at_);
  const bool is_short = chunk_size_ <= kShortMax;
  stripes_end_ = is_short ? 0 : (chunk_size_ - 1) / kStripe * kStripe;
  stripe_ = 0;
  std::copy_n(kStart, 8, acc_);
}

void ChunkCopier::Append(const void* source, size_t size) {
  CHECK(size <= size_ - at_, "no more than was announced");
  const auto* from = static_cast<const std::byte*>(source);
  while (size > 0) {
    const size_t inside = at_ - chunk_begin_;
    const size_t held = inside % kStripe;
    size_t taken = 0;
    if (inside >= stripes_end_) {
      taken = std::min(size, chunk_size_ - inside);
      std::memcpy(image_ + at_, from, taken);
    } else if (held > 0 || size < kStripe) {
      taken = std::min(size, kStripe - held);
      std::memcpy(hold_ + held, from, taken);
      if (held + taken == kStripe) {
        stripe_ = Copy(image_ + at_ - held, hold_, 1, stripe_, acc_);
      }
    } else {
      const size_t stripes = std::min(size, stripes_end_ - inside) / kStripe;
      taken = stripes * kStripe;
      stripe_ = Copy(image_ + at_, from, stripes, stripe_, acc_);
    }
    at_ += taken;
    from += taken;
    size -= taken;
    if (at_ - chunk_begin_ == chunk_size_) EndChunk();
  }
}

void ChunkCopier::EndChunk() {
  const std::byte* chunk = image_ + chunk_begin_;
  if (stripes_end_ == 0) {
    hashes_.push_back(XXH3_64bits(chunk, chunk_size_));
  } else {
    Mix(chunk + chunk_size_ - kStripe, Secret() + kLastAt, acc_);
    hashes_.push_back(Merge(acc_, chunk_size_));
  }
  if (at_ < size_) BeginChunk();
}

const std::vector<uint64_t>& ChunkCopier::Finish() {
  CHECK(at_ == size_, "every byte was appended");
  Fence();
  return hashes_;
}

const char* ChunkCopier::Kernel() {
#if defined(__x86_64__)
  if (HasAvx2()) return "avx2";
#endif
  return "portable";
}

}  // namespace paceline::ckpt
