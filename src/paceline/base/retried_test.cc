#include "paceline/base/retried.h"

#include <sys/stat.h>

#include <string>

#include "gtest/gtest.h"
#include "paceline/base/fd.h"
#include "paceline/base/test_dir.h"

namespace paceline {
namespace {

TEST(RetriedTest, ACallThatASignalInterruptsIsRepeated) {
  int calls = 0;
  const int result = Retried([&] {
    errno = EINTR;
    return ++calls < 3 ? -1 : 7;
  });
  EXPECT_EQ(result, 7);
  EXPECT_EQ(calls, 3);
}

TEST(RetriedTest, AnotherErrorIsReturnedAtOnce) {
  int calls = 0;
  const int result = Retried([&] {
    ++calls;
    errno = ENOSPC;
    return -1;
  });
  EXPECT_EQ(result, -ENOSPC);
  EXPECT_EQ(calls, 1);
}

TEST(RetriedTest, ARangeIsReservedOrTheErrorIsReturned) {
  const TestDir dir;
  const Fd fd(::open((dir.path() + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(ReserveRange(fd.get(), 4096, 8192), 0);
  struct stat found {};
  ASSERT_EQ(::fstat(fd.get(), &found), 0);
  EXPECT_EQ(found.st_size, 4096 + 8192);
  EXPECT_EQ(ReserveRange(-1, 0, 4096), -EBADF);
}

}  // namespace
}  // namespace paceline
