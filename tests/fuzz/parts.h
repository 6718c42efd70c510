#pragma once

// What fuzz targets share: an input cut into parts, demands, and files in a folder of the process.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::fuzz {

// What must hold for every input, sanitizers aside.
inline void Demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "demand failed: %s\n", what);
  std::abort();
}

inline std::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Cuts at each `separator`.
inline std::vector<std::string> Parts(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// An empty folder that goes with the process. In memory where there is such a file system: a run
// writes millions of files.
class Folder {
 public:
  Folder() {
    const char* base = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    std::string path = std::string(base) + "/paceline-fuzz-XXXXXX";
    Demand(::mkdtemp(path.data()) != nullptr, "a folder can be made");
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, std::string_view text) const {
    std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
    return path;
  }

 private:
  std::string path_;
};

}  // namespace paceline::fuzz
