// Runs a fuzz target without libFuzzer: over every file of a folder, whole, cut short and mutated
// by a seeded generator. An input that once crashed a parser is put into the corpus and checked by
// every `make test` from then on.
//
//   TARGET_corpus FOLDER [MUTATIONS]     mutations of each file, 100 when not said
//
// The input at hand is kept in the file `last_input` of the current directory when the environment
// says PACELINE_FUZZ_KEEP=1, to be looked at after a crash.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "paceline/base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kCutsMax = 256;  // truncations tried for each file, spread evenly
constexpr uint64_t kMutations = 100;
constexpr size_t kBytesMax = 1 << 16;

void Run(const Bytes& bytes) {
  if (std::getenv("PACELINE_FUZZ_KEEP") != nullptr) {
    std::ofstream("last_input", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  // A copy of exact size, so that the sanitizer sees a read one past the end.
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void RunCuts(const Bytes& bytes) {
  const size_t stride = std::max<size_t>(1, bytes.size() / kCutsMax);
  for (size_t size = 0; size < bytes.size(); size += stride) {
    Run({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)});
  }
}

// A piece of some other input of the corpus, a byte, a bit, a number at the edge, or a gap.
void Mutate(paceline::Prng& prng, const std::vector<Bytes>& corpus, Bytes& bytes) {
  const auto at = static_cast<ptrdiff_t>(prng.Below(bytes.size() + 1));
  const auto left = static_cast<uint64_t>(bytes.size()) - static_cast<uint64_t>(at);
  switch (prng.Below(6)) {
    case 0:
      if (left > 0) bytes[static_cast<size_t>(at)] ^= static_cast<uint8_t>(1u << prng.Below(8));
      return;
    case 1:
      if (left > 0) bytes[static_cast<size_t>(at)] = static_cast<uint8_t>(prng.Below(256));
      return;
    case 2: {
      const Bytes& other = corpus[prng.Below(corpus.size())];
      if (other.empty()) return;
      const auto from = static_cast<ptrdiff_t>(prng.Below(other.size()));
      const auto count =
          static_cast<ptrdiff_t>(prng.Below(other.size() - static_cast<uint64_t>(from)) + 1);
      bytes.insert(bytes.begin() + at, other.begin() + from, other.begin() + from + count);
      return;
    }
    case 3: {
      const auto count = static_cast<ptrdiff_t>(prng.Below(std::min<uint64_t>(left, 16) + 1));
      bytes.erase(bytes.begin() + at, bytes.begin() + at + count);
      return;
    }
    case 4: {
      const uint8_t edge = prng.Chance(1, 2) ? 0xff : 0x00;
      bytes.insert(bytes.begin() + at, prng.Below(9), edge);
      return;
    }
    default: {
      constexpr char kOdd[] = "\0\n\r\"'\\{}[]:;,=-+.#/ 9e\x1e\x80\xff";
      bytes.insert(bytes.begin() + at, static_cast<uint8_t>(kOdd[prng.Below(sizeof(kOdd) - 1)]));
    }
  }
}

void RunMutations(const std::vector<Bytes>& corpus, size_t index, uint64_t count) {
  for (uint64_t seed = 0; seed < count; ++seed) {
    paceline::Prng prng(seed * corpus.size() + index);
    Bytes bytes = corpus[index];
    for (uint64_t steps = prng.Below(8) + 1; steps > 0; --steps) Mutate(prng, corpus, bytes);
    if (bytes.size() <= kBytesMax) Run(bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER [MUTATIONS]\n", argv[0]);
    return 2;
  }
  const uint64_t mutations = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : kMutations;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& path : files) {
    std::ifstream stream(path, std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(stream), {}};
    corpus.emplace_back(text.begin(), text.end());
  }
  for (size_t i = 0; i < corpus.size(); ++i) {
    Run(corpus[i]);
    RunCuts(corpus[i]);
    RunMutations(corpus, i, mutations);
  }
  std::printf("%zu inputs replayed, each with its cuts and %llu mutations\n", files.size(),
              static_cast<unsigned long long>(mutations));
  return files.empty() ? 1 : 0;
}
