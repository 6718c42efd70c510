#include "paceline/cli/console/error_file.h"

#include "gtest/gtest.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/test_dir.h"

namespace paceline::cli {
namespace {

RootFailure Root() {
  return {.node = "node0",
          .rank = 1,
          .generation = 3,
          .sentence = "rank 1 on node0 failed: ValueError: bad batch",
          .traceback = "Traceback …",
          .rank_exit_code = 7};
}

TEST(ErrorFile, HasWhatTheRankRecordedAndItsExitCode) {
  const std::string recorded =
      R"({"message": {"message": "ValueError: x", "extraInfo": {"timestamp": "1"}}})";
  const auto json = ParseJson(FormatErrorFile(Root(), recorded, 5));
  EXPECT_EQ(json["message"]["message"], "ValueError: x");
  EXPECT_EQ(json["message"]["errorCode"], 7);
  EXPECT_EQ(json["message"]["extraInfo"]["timestamp"], "1");
}

TEST(ErrorFile, TellsWhatIsKnownWhenTheRankRecordedNothing) {
  for (const char* recorded : {"", "{", "[]", "{}"}) {
    const auto json = ParseJson(FormatErrorFile(Root(), recorded, 5));
    EXPECT_EQ(json["message"]["message"], Root().sentence);
    EXPECT_EQ(json["message"]["errorCode"], 7);
    EXPECT_EQ(json["message"]["extraInfo"]["py_callstack"], "Traceback …");
    EXPECT_EQ(json["message"]["extraInfo"]["timestamp"], "5");
  }
}

TEST(ErrorFile, IsWrittenInPlaceWhereTheLauncherIsAskedFor) {
  const TestDir dir;
  const std::string path = dir.path() + "/termination-log";
  ASSERT_TRUE(ReplaceFile(path, std::string(4096, 'x'), 0600).ok());
  WriteErrorFile({{"TORCHELASTIC_ERROR_FILE", path}}, Root(), dir.path());
  EXPECT_EQ(ParseJson(ReadText(path, 8192))["message"]["errorCode"], 7);
}

}  // namespace
}  // namespace paceline::cli
