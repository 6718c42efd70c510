#include "paceline/agent/logs/log_tender.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/test_tmpfs.h"

namespace paceline::agent {
namespace {

// A FIFO without a reader blocks whoever opens it for writing, as a disk that answers nobody does.
TEST(LogTenderTest, WhoeverBeginsARoundNeverWaitsForTheDisk) {
  const TestDir dir;
  const SmallTmpfs disk(dir.path(), "1m");
  if (!disk.is_there()) GTEST_SKIP() << "SLOW DISK NOT TESTED: mounting needs root";
  RankLogs logs(dir.path(), {});
  logs.OpenGeneration(1);
  const std::string path = logs.StderrPath(1, 0);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string filling = dir.path() + "/filling";
  ASSERT_TRUE(ReplaceFile(filling, std::string(1000 << 10, 'x'), 0600).ok());
  std::string note(200, '\0');
  {
    const LogTender::Round round{.generation = 1, .ranks = {{.generation = 1, .rank = 0}}};
    LogTender tender(logs, dir.path());
    EXPECT_TRUE(tender.Begin(round));             // sees that the disk is full
    while (!tender.Begin(round)) ::usleep(1000);  // the first round is over
    ASSERT_EQ(::unlink(filling.c_str()), 0);
    // A round that sees room waits at the FIFO, and no call here waits with it.
    for (int i = 0; i < 200; ++i) {
      tender.Begin(round);
      ::usleep(1000);
    }
    std::atomic<bool> is_told = false;
    std::jthread reading([&] {
      const Fd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      const ssize_t got = ::read(reader.get(), note.data(), note.size());
      note.resize(got < 0 ? 0 : static_cast<size_t>(got));
      is_told = true;
    });
    while (!is_told) {
      tender.Begin(round);
      ::usleep(1000);
    }
  }
  EXPECT_TRUE(note.starts_with("[paceline: the disk was full")) << note;
}

}  // namespace
}  // namespace paceline::agent
