// Asking about a job whose master is not where it was, over real servers.

#include "paceline/cli/job/remote.h"
#include "paceline/base/json.h"

#include <unistd.h>

#include <climits>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"
#include "paceline/wire/server/master_server.h"

namespace paceline::cli {
namespace {

class Remote : public testing::Test {
 protected:
  Remote() {
    wire::UseOnlyTls13();
    EXPECT_TRUE(ReplaceFile(dir_.path() + "/token", token_, 0600).ok());
    auto server = wire::MasterServer::Start(
        {.listen = "127.0.0.1:0", .credentials = {.token = token_}}, [](wire::ServerEvent event) {
          if (auto* asked = std::get_if<wire::StatusAsked>(&event)) {
            asked->reply(wire::JobStatus{.job_id = "job"});
          }
          return true;
        });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = "127.0.0.1:" + std::to_string(server_->port());
  }

  // job.json as a launcher writes it. This process stands for one that lives.
  void Say(const std::string& master_address, int launcher_pid, bool has_master = true) {
    const nlohmann::json card = {
        {"schema", "paceline.job/1"},
        {"id", "job"},
        {"has_master", has_master},
        {"launcher_pid", launcher_pid},
        {"launcher", {{"pid", launcher_pid}, {"start_time", agent::StartTimeOf(launcher_pid)}}},
        {"master", {{"addr", master_address}}}};
    ASSERT_TRUE(ReplaceFile(dir_.path() + "/job.json", PrintJson(card), 0600).ok());
  }
  JobPlace Place() { return *ReadJobPlace(dir_.path()); }

  // A port below those that the kernel hands out, where nobody listens.
  const std::string nowhere_ = "127.0.0.1:1";
  const TestDir dir_;
  const std::string token_ = wire::MakeToken();
  std::unique_ptr<wire::MasterServer> server_;
  std::string address_;
};

TEST_F(Remote, AMasterThatMovesIsAskedWhereItIs) {
  Say(nowhere_, getpid());
  ASSERT_TRUE(Place().is_running());
  int asked = 0;
  const auto end =
      AskUntil(Place(), {.each = Duration::Seconds(30)}, [&](const JobPlace& now, Duration limit) {
        const bool is_first = ++asked == 1;
        const auto options = ControlOptions(now, is_first ? Duration::Milliseconds(50) : limit);
        EXPECT_TRUE(options.ok());
        const auto status = wire::ControlClient(*options).GetStatus();
        EXPECT_EQ(IsAway(status.status()), is_first) << status.status();
        if (is_first) Say(address_, getpid());
        return status.ok();
      });
  EXPECT_EQ(end, Asked::kAnswered);
  EXPECT_EQ(asked, 2);
}

TEST_F(Remote, AJournalThatWasEmptiedIsNoJobThatWasNeverSubmitted) {
  Say(nowhere_, 0);
  ASSERT_TRUE(ReplaceFile(dir_.path() + "/journal.db", "", 0600).ok());
  const auto status = StatusFromJournal(Place());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.problem().code, "PL-E030");
  EXPECT_NE(status.problem().why.find("the journal has no record"), std::string::npos);
}

// As after a node was taken out of its job: its last line says to ask `paceline why`.
TEST_F(Remote, AMasterOnAnotherHostIsAskedAfterThisHostsPartHasEnded) {
  Say(address_, 0, /*has_master=*/false);
  const auto status = StatusOf(Place(), Duration::Seconds(30));
  ASSERT_TRUE(status.ok()) << status.problem().what;
  EXPECT_EQ(status->job_id, "job");
}

TEST_F(Remote, AMasterOnAnotherHostThatIsAwayIsNamed) {
  Say(nowhere_, 0, /*has_master=*/false);
  const auto status = StatusOf(Place(), Duration::Seconds(1));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.problem().where, nowhere_);
  const auto none = [](const wire::JobEvent&) { return true; };
  const Check events = EventsOf(Place(), 1, /*follow=*/true, none);
  ASSERT_TRUE(events.has_value());
  EXPECT_EQ(events->where, nowhere_);
}

TEST_F(Remote, NobodyIsAskedForEverWhenNobodyRunsTheJob) {
  Say(nowhere_, 0);
  int asked = 0;
  const auto never = [&](const JobPlace&, Duration) { return ++asked < 0; };
  EXPECT_EQ(AskUntil(Place(), {.each = Duration::Seconds(1)}, never), Asked::kNobodyRunsIt);
  EXPECT_EQ(asked, 1) << "what it left behind is looked at once";
}

// It ends between two looks: what it did last is asked for once more.
TEST_F(Remote, AJobThatEndsIsLookedAtAfterItsEnd) {
  Say(nowhere_, getpid());
  int asked = 0;
  const auto end =
      AskUntil(Place(), {.each = Duration::Seconds(1)}, [&](const JobPlace& now, Duration) {
        if (++asked == 1) {
          EXPECT_TRUE(now.is_running());
          Say(nowhere_, 0);
        }
        return false;
      });
  EXPECT_EQ(end, Asked::kNobodyRunsIt);
  EXPECT_EQ(asked, 2);
}

TEST_F(Remote, TimeIsUpAlsoForAJobThatMayBeResumed) {
  Say(nowhere_, 0);
  const auto ask_until = [this](Duration in_all, int last) {
    int asked = 0;
    const auto end =
        AskUntil(Place(), {.each = Duration::Seconds(1), .in_all = in_all, .also_for_nobody = true},
                 [&](const JobPlace&, Duration) { return ++asked == last; });
    return std::pair(end, asked);
  };
  EXPECT_EQ(ask_until(Duration::Milliseconds(150), INT_MAX).first, Asked::kTimeIsUp);
  EXPECT_EQ(ask_until(Duration::Seconds(60), 3), std::pair(Asked::kAnswered, 3));
}

}  // namespace
}  // namespace paceline::cli
