// Runs a fuzz target over every file of a folder, whole and cut short, without libFuzzer. An input
// that once crashed a parser is put into the corpus and checked by every `make test` from then on.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kCutsMax = 256;  // truncations tried for each file, spread evenly

void Replay(const std::vector<uint8_t>& bytes) {
  // A copy of exact size, so that the sanitizer sees a read one past the end.
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  const size_t stride = std::max<size_t>(1, bytes.size() / kCutsMax);
  for (size_t size = 0; size < bytes.size(); size += stride) {
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    LLVMFuzzerTestOneInput(cut.data(), cut.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::ifstream stream(path, std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(stream), {}};
    Replay({text.begin(), text.end()});
  }
  std::printf("%zu inputs replayed\n", files.size());
  return files.empty() ? 1 : 0;
}
