#include "paceline/agent/logs/disk_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "gtest/gtest.h"
#include "paceline/base/fd.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/test_tmpfs.h"

namespace paceline::agent {
namespace {

Instant At(int64_t second) { return Instant() + Duration::Seconds(second); }

TEST(DiskWatchTest, TellsOnceForHowLongTheDiskWasFull) {
  DiskWatch watch;
  EXPECT_FALSE(watch.Look(At(0), 1 << 20).has_value());
  EXPECT_FALSE(watch.Look(At(5), 0).has_value());
  EXPECT_FALSE(watch.Look(At(10), 4096).has_value());
  EXPECT_FALSE(watch.Look(At(15), std::nullopt).has_value());
  EXPECT_EQ(watch.Look(At(45), 1 << 20), Duration::Seconds(40));
  EXPECT_FALSE(watch.Look(At(50), 1 << 20).has_value());
}

// Writes until the disk is full; the bytes that it took.
size_t Fill(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string block(4096, 'x');
  size_t written = 0;
  while (::write(fd.get(), block.data(), block.size()) > 0) written += block.size();
  EXPECT_EQ(errno, ENOSPC);
  return written;
}

TEST(DiskWatchTest, TheRoomForAnErrorRecordIsThereOnAFullDisk) {
  const TestDir dir;
  const std::string& folder = dir.path();
  const SmallTmpfs disk(folder, "1m");
  if (!disk.is_there()) GTEST_SKIP() << "FULL DISK NOT TESTED: mounting needs root";
  ReserveErrorRoom(folder);
  Fill(folder + "/other");
  ASSERT_EQ(::rename((folder + "/room").c_str(), (folder + "/record").c_str()), 0);
  EXPECT_EQ(DiskWatch::FreeBytes(folder), 0u);
  EXPECT_EQ(Fill(folder + "/record"), size_t{256 << 10});
}

}  // namespace
}  // namespace paceline::agent
