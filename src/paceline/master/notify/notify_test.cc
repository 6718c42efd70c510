#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/test_dir.h"
#include "paceline/master/notify/notice.h"
#include "paceline/master/notify/notifier.h"

namespace paceline::master {
namespace {

std::vector<std::string> Shell(const std::string& line) { return {"/bin/sh", "-c", line}; }

void AwaitNotices(const std::function<bool()>& is_there) {
  for (int i = 0; i < 6000 && !is_there(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(is_there());
}

std::vector<int> NumbersIn(const std::string& path) {
  std::vector<int> numbers;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    numbers.push_back(ParseJson(line).at("number").get<int>());
  }
  return numbers;
}

TEST(Notifier, GivesEachNoticeAsALineInOrder) {
  const TestDir dir;
  {
    Notifier notifier({.command = Shell("cat >> lines"),
                       .timeout = Duration::Seconds(60),
                       .end_wait = Duration::Seconds(60),
                       .cwd = dir.path()});
    for (int i = 0; i < 3; ++i) notifier.Post({{"number", i}});
  }
  EXPECT_EQ(NumbersIn(dir.path() + "/lines"), (std::vector<int>{0, 1, 2}));
}

TEST(Notifier, DropsTheOldestAndCountsThem) {
  const TestDir dir;
  {
    Notifier notifier({.command = Shell("cat >> lines; touch began; "
                                        "while ! [ -e go ]; do sleep 0.02; done"),
                       .timeout = Duration::Seconds(60),
                       .end_wait = Duration::Seconds(60),
                       .cwd = dir.path()});
    notifier.Post({{"number", 0}});
    AwaitNotices([&] { return std::filesystem::exists(dir.path() + "/began"); });
    const int last = static_cast<int>(Notifier::kQueueMax) + 3;
    for (int i = 1; i <= last; ++i) notifier.Post({{"number", i}});
    EXPECT_EQ(notifier.counts().dropped, 3u);
    dir.Write("go", "");
    AwaitNotices([&] { return notifier.counts().done == Notifier::kQueueMax + 1; });
  }
  const std::vector<int> numbers = NumbersIn(dir.path() + "/lines");
  ASSERT_EQ(numbers.size(), Notifier::kQueueMax + 1);
  EXPECT_EQ(numbers[1], 4);
  const std::string text = ReadText(dir.path() + "/lines", 1 << 20);
  EXPECT_NE(text.find(R"({"number":4,"dropped":3})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"({"number":5,"dropped":0})"), std::string::npos) << text;
}

TEST(Notifier, KillsACommandThatHangsWithWhatItStarted) {
  const TestDir dir;
  Notifier notifier({.command = Shell("sleep 1000 & echo $! > child; mv child pid; wait"),
                     .timeout = Duration::Milliseconds(500),
                     .end_wait = Duration::Milliseconds(500),
                     .cwd = dir.path()});
  notifier.Post({{"number", 0}});
  AwaitNotices([&] { return notifier.counts().failed == 1; });
  const std::string pid = ReadText(dir.path() + "/pid", 64);
  if (pid.empty()) return;  // the shell had no turn within its time
  AwaitNotices([&] {
    const std::string stat = ReadText("/proc/" + std::to_string(std::stoi(pid)) + "/stat", 512);
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  });
}

TEST(Notifier, CountsFailures) {
  const TestDir dir;
  Notifier notifier({.command = {"/nonexistent/program"},
                     .timeout = Duration::Seconds(60),
                     .end_wait = Duration::Seconds(60),
                     .cwd = dir.path()});
  notifier.Post({{"number", 0}});
  notifier.Post({{"number", 1}});
  AwaitNotices([&] { return notifier.counts().failed == 2; });
  EXPECT_EQ(notifier.counts().done, 0u);
}

TEST(Notifier, DoesNotWaitForTheWholeTimeoutAtItsEnd) {
  const TestDir dir;
  {
    Notifier notifier({.command = Shell("cat >> lines; exec sleep 1000"),
                       .timeout = Duration::Seconds(1000),
                       .end_wait = Duration::Milliseconds(10),
                       .cwd = dir.path()});
    for (int i = 0; i < 3; ++i) notifier.Post({{"number", i}});
  }
  EXPECT_LE(NumbersIn(dir.path() + "/lines").size(), 1u);
}

class NoticeSieveTest : public ::testing::Test {
 protected:
  std::optional<NoticeKind> Fold(core::Fact fact) {
    return sieve_.Fold({.seq = RecordSeq(++seq_), .fact = std::move(fact)});
  }
  std::optional<NoticeKind> Form(uint64_t generation) {
    return Fold(core::WorldFormed{
        .world = {.generation = Generation(generation),
                  .seats = {{.node = NodeId(1), .first_rank = 0, .rank_count = 1},
                            {.node = NodeId(2), .first_rank = 1, .rank_count = 1}}}});
  }
  NoticeSieve sieve_;
  uint64_t seq_ = 0;
};

TEST_F(NoticeSieveTest, TellsOneFailureAWorldAndItsRecovery) {
  EXPECT_EQ(Form(1), std::nullopt);
  EXPECT_EQ(Fold(core::WorldRunning{}), std::nullopt);
  EXPECT_EQ(Fold(core::RankFailed{.node = NodeId(1)}), NoticeKind::kFailure);
  EXPECT_EQ(Fold(core::NodeLost{.node = NodeId(2)}), std::nullopt);
  EXPECT_EQ(Form(2), std::nullopt);
  EXPECT_EQ(Fold(core::RankFailed{.node = NodeId(1)}), NoticeKind::kFailure);
  EXPECT_EQ(Form(3), std::nullopt);
  EXPECT_EQ(Fold(core::WorldRunning{}), NoticeKind::kRecovery);
  EXPECT_EQ(Fold(core::WorldRunning{}), std::nullopt);
  EXPECT_EQ(Fold(core::JobFinished{}), NoticeKind::kStop);
}

TEST_F(NoticeSieveTest, IsSilentOfSparesAndOfNodesThatWereDone) {
  Form(1);
  EXPECT_EQ(Fold(core::NodeLost{.node = NodeId(7)}), std::nullopt);
  EXPECT_EQ(Fold(core::NodeLost{.node = NodeId(1), .finished = true}), std::nullopt);
  EXPECT_EQ(Fold(core::NodeLost{.node = NodeId(2)}), NoticeKind::kFailure);
}

TEST_F(NoticeSieveTest, TellsAHangAndItsEnd) {
  Form(1);
  EXPECT_EQ(Fold(core::HangJudged{}), NoticeKind::kHang);
  EXPECT_EQ(Fold(core::HangEnded{}), NoticeKind::kHangEnded);
}

TEST(Notice, IsOneLineWhateverAnExceptionSays) {
  const wire::JobEvent event{.seq = 7,
                             .sentence = "rank 1 failed: a\nb \xff" + std::string(9000, 'x')};
  const nlohmann::ordered_json notice =
      MakeNotice({.kind = NoticeKind::kStop, .job_id = "j", .exit_code = 3}, event);
  const std::string line = PrintJson(notice);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_LT(line.size(), 4000u);
  EXPECT_EQ(notice["exit_code"], 3);
  EXPECT_EQ(notice["kind"], "stop");
}

}  // namespace
}  // namespace paceline::master
