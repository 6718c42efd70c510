#pragma once

// A directory of a test's own, removed with everything in it.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "paceline/base/check.h"

namespace paceline {

class TestDir {
 public:
  explicit TestDir(const std::string& parent = std::filesystem::temp_directory_path()) {
    std::string pattern = parent + "/paceline-XXXXXX";
    CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TestDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  // A parent directory in memory, if there is such a file system, for tests that write millions of
  // files. Files there may not be executable.
  static std::string InMemory() {
    return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                           : std::filesystem::temp_directory_path().string();
  }

  const std::string& path() const { return path_; }

  // Writes path()/name with this content; returns that path.
  std::string Write(const std::string& name, std::string_view text) const {
    std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
    return path;
  }

 private:
  std::string path_;
};

}  // namespace paceline
