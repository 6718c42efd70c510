#include "paceline/cli/run/detach.h"

#include <sys/resource.h>

#include <cstdio>
#include <string>

#include "gtest/gtest.h"
#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"
#include "paceline/cli/console/exit_code.h"

namespace paceline::cli {
namespace {

TEST(DetachTest, WithoutRoomForAProcessNothingGoesOnInTheForeground) {
  const TestDir dir;
  FILE* const said = std::fopen((dir.path() + "/said").c_str(), "w");
  ASSERT_NE(said, nullptr);
  Output out({}, said, said);
  PreparedRun run;
  run.dir.path = dir.path();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Fd serving;
  const std::optional<int> exit_code = Detach(run, out, &serving);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  std::fclose(said);
  EXPECT_EQ(exit_code, kExitTrainingFailed);
  const std::string text = ReadText(dir.path() + "/said", 4096);
  EXPECT_NE(text.find("PL-E050"), std::string::npos) << text;
  EXPECT_NE(text.find("Too many open files"), std::string::npos) << text;
}

}  // namespace
}  // namespace paceline::cli
