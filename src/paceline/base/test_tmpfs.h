#pragma once

// A small tmpfs over a test's directory, for tests of a full file system.

#include <sys/mount.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "paceline/base/check.h"

namespace paceline {

class SmallTmpfs {
 public:
  // `size` as mount(8) has it: "4m".
  SmallTmpfs(std::string folder, const std::string& size)
      : folder_(std::move(folder)),
        is_there_(::geteuid() == 0 &&
                  ::mount("none", folder_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0) {}
  // All files in it must be closed by then. Otherwise the mount would outlive the test.
  ~SmallTmpfs() { CHECK(!is_there_ || ::umount(folder_.c_str()) == 0); }
  SmallTmpfs(const SmallTmpfs&) = delete;
  SmallTmpfs& operator=(const SmallTmpfs&) = delete;

  // Mounting needs root.
  bool is_there() const { return is_there_; }

 private:
  const std::string folder_;
  const bool is_there_;
};

}  // namespace paceline
