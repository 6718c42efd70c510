// Our side of bench/checkpoint/save.py, and this machine's limits, in one process:
//
//   bench_checkpoint ARENA_DIR DISK_DIR BYTES TENSORS ROUNDS
//
// Prints a JSON line for each measurement. Everything alternates within a round: a plain copy with
// streaming stores, memcpy, a save; a raw direct write, a drain; memcpy back, a verified restore.

#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cpu_seconds.h"
#include "paceline/base/check.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/image/drain.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/image/save.h"

namespace paceline::ckpt {
namespace {

using Clock = std::chrono::steady_clock;

template <class Work>
void Measure(const char* what, int round, uint64_t bytes, Work work) {
  const double cpu = bench::OwnCpuSeconds();
  const auto start = Clock::now();
  const std::string way = work();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  printf(
      "{\"what\":\"%s\",\"round\":%d,\"seconds\":%.6f,\"bytes\":%llu,\"cpu\":%.4f,\"way\":\"%s\"}"
      "\n",
      what, round, seconds, static_cast<unsigned long long>(bytes), bench::OwnCpuSeconds() - cpu,
      way.c_str());
  fflush(stdout);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) std::string StreamingCopy(std::byte* to, const std::byte* from,
                                                          size_t bytes) {
  for (size_t i = 0; i + 64 <= bytes; i += 64) {
    const auto* source = reinterpret_cast<const __m256i*>(from + i);
    auto* target = reinterpret_cast<__m256i*>(to + i);
    const __m256i first = _mm256_loadu_si256(source);
    const __m256i second = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(target, first);
    _mm256_stream_si256(target + 1, second);
  }
  _mm_sfence();
  return "avx2";
}
#else
std::string StreamingCopy(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return "memcpy";
}
#endif

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte[], Free>;

Memory Allocate(size_t bytes) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
  // Not compressible, and every page is there.
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(memory.get() + i, &state, 8);
  }
  return memory;
}

// The state that is saved: `count` tensors of `each` bytes.
struct State {
  State(size_t tensor_count, uint64_t tensor_bytes)
      : count(tensor_count), each(tensor_bytes), bytes(count * each) {
    std::vector<TensorBox> boxes;
    std::vector<TensorBox> small;
    for (size_t i = 0; i < count; ++i) {
      char key[32];
      snprintf(key, sizeof(key), "tensor%06zu", i);
      boxes.push_back({.key = key, .dtype = DType::kU8, .shape = {each}});
      small.push_back({.key = key, .dtype = DType::kU8, .shape = {1}});
      sources.push_back(source.get() + i * each);
    }
    layout = *LayOut(std::move(boxes), {});
    tiny = *LayOut(std::move(small), {});
  }

  const size_t count;
  const uint64_t each;
  const uint64_t bytes;
  const Memory source = Allocate(bytes);
  const Memory back = Allocate(bytes);
  std::vector<const void*> sources;
  Image layout;
  Image tiny;  // the same tensors, a byte each: what is left is the fixed cost
};

void CopyRound(const State& state, Arena* arena, int round) {
  Measure("save", round, state.bytes, [&] {
    const auto saved = Save(arena, state.layout, state.sources, {.saved = {1, round}});
    CHECK(saved.ok(), "there is a slot");
    return std::string(ChunkCopier::Kernel());
  });
  // The limits on warm memory.
  Measure("streaming_copy", round, state.bytes,
          [&] { return StreamingCopy(state.back.get(), state.source.get(), state.bytes); });
  Measure("memcpy", round, state.bytes, [&] {
    std::memcpy(state.back.get(), state.source.get(), state.bytes);
    return std::string("libc");
  });
}

void ImageRound(const State& state, const Arena& arena, const std::string& disk_dir, int round) {
  const ArenaImage image = arena.Sealed().front();
  const auto held = arena.FileOf(image);
  const auto hashes = arena.FileHashesOf(image);
  Measure("restore", round, state.bytes, [&] {
    std::vector<Target> targets;
    for (size_t i = 0; i < state.count; ++i) {
      targets.push_back(
          {.box = state.layout.boxes[i], .data = {state.back.get() + i * state.each, state.each}});
    }
    MemorySource source(held);
    CHECK(Restore(&source, hashes, std::move(targets)).ok(), "nothing was lost");
    return std::string("own arena");
  });
  for (const bool verify : {false, true}) {
    const std::string path = disk_dir + "/image";
    Measure(verify ? "drain" : "raw_direct", round, held.size(), [&] {
      MemorySource source(held);
      const auto report = Drain(&source, hashes, path, {.verify = verify});
      CHECK(report.ok(), "the disk takes it");
      return report->way;
    });
    unlink(path.c_str());
  }
}

int Main(int argc, char** argv) {
  if (argc != 6) {
    fprintf(stderr, "bench_checkpoint ARENA_DIR DISK_DIR BYTES TENSORS ROUNDS\n");
    return 2;
  }
  const std::string arena_path = std::string(argv[1]) + "/arena";
  const size_t tensors = strtoull(argv[4], nullptr, 10);
  const State state(tensors, strtoull(argv[3], nullptr, 10) / tensors / 64 * 64);
  const int rounds = atoi(argv[5]);
  auto arena = *Arena::OpenOrMake(arena_path, {"bench", "boot", 0}, {state.layout.size, 3});
  Measure("reserve", 0, state.layout.size * 3, [&] {
    for (uint32_t slot = 0; slot < arena->slot_count(); ++slot) {
      CHECK(arena->Reserve(slot).ok(), "there is memory");
    }
    return std::string("one thread");
  });
  for (int round = 0; round < rounds; ++round) {
    CopyRound(state, arena.get(), round);
    ImageRound(state, *arena, argv[2], round);
  }
  for (int round = 0; round < rounds; ++round) {
    Measure("fixed", round, tensors, [&] {
      const auto saved = Save(arena.get(), state.tiny, state.sources, {.saved = {2, round}});
      CHECK(saved.ok(), "there is a slot");
      return std::string(ChunkCopier::Kernel());
    });
  }
  unlink(arena_path.c_str());
  return 0;
}

}  // namespace
}  // namespace paceline::ckpt

int main(int argc, char** argv) { return paceline::ckpt::Main(argc, argv); }
