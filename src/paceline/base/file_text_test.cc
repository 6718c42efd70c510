#include "paceline/base/file_text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "paceline/base/fd.h"
#include "paceline/base/test_dir.h"

namespace paceline {
namespace {

size_t FilesIn(const std::string& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(FileTextTest, ADurableFileIsReplacedWholeAndOnlyForItsOwner) {
  const TestDir dir;
  const std::string path = dir.path() + "/token";
  ASSERT_TRUE(ReplaceFileDurably(path, "old", 0600).ok());
  ASSERT_TRUE(ReplaceFileDurably(path, "new", 0600).ok());
  EXPECT_EQ(ReadText(path, 100), "new");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(FilesIn(dir.path()), 1u);
}

TEST(FileTextTest, AnOwnFileIsNoLinkAndNoPipe) {
  const TestDir dir;
  const std::string path = dir.path() + "/token";
  ASSERT_TRUE(ReplaceFile(path, "secret", 0600).ok());
  EXPECT_EQ(ReadOwnText(path, 100), "secret");
  EXPECT_EQ(ReadOwnText(path, 3), "sec");
  std::filesystem::create_symlink(path, dir.path() + "/link");
  EXPECT_EQ(ReadText(dir.path() + "/link", 100), "secret");
  EXPECT_EQ(ReadOwnText(dir.path() + "/link", 100), "");
  ASSERT_EQ(::mkfifo((dir.path() + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadOwnText(dir.path() + "/pipe", 100), "");
  EXPECT_EQ(ReadOwnText(dir.path() + "/none", 100), "");
}

TEST(FileTextTest, AFailedReplacementLeavesNothing) {
  const TestDir dir;
  const std::string path = dir.path() + "/folder";
  ASSERT_TRUE(MakeDirs(path + "/full", 0700).ok());
  EXPECT_FALSE(ReplaceFileDurably(path, "text", 0600).ok());
  EXPECT_FALSE(ReplaceFileDurably(dir.path() + "/none/file", "text", 0600).ok());
  EXPECT_EQ(FilesIn(dir.path()), 1u);
}

TEST(FileTextTest, ANamedFileIsReplacedOnlyIfItIsAFile) {
  const TestDir dir;
  const std::string file = dir.path() + "/file";
  ASSERT_TRUE(WriteNamedFile(file, "old", 0600).ok());
  std::filesystem::create_symlink("file", dir.path() + "/link");
  ASSERT_TRUE(WriteNamedFile(dir.path() + "/link", "new", 0600).ok());
  EXPECT_EQ(ReadText(file, 100), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(dir.path() + "/link"));
  const std::string pipe = dir.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Fd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(WriteNamedFile(pipe, "text", 0600).ok());
  char got[8] = {};
  EXPECT_EQ(::read(reader.get(), got, sizeof(got)), 4);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_FALSE(WriteNamedFile("/dev/full", "text", 0600).ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_FALSE(WriteNamedFile(dir.path(), "text", 0600).ok());
  EXPECT_EQ(FilesIn(dir.path()), 3u);
}

}  // namespace
}  // namespace paceline
