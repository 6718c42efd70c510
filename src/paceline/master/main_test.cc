// A whole master in this process, with light agents on real streams: a job from its first node to
// its end, with a change of masters.

#include "paceline/master/main.h"

#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "gtest/gtest.h"
#include "paceline/base/test_dir.h"
#include "paceline/master/job_file.h"
#include "paceline/master/journal/journal.h"
#include "paceline/model/problem.h"
#include "paceline/model/test_report.h"
#include "paceline/model/version.h"
#include "paceline/wire/client/agent_stream.h"
#include "paceline/wire/client/control_client.h"
#include "paceline/wire/codec/spec_file.h"
#include "paceline/wire/security/secret_file.h"

namespace paceline::master {
namespace {

namespace fs = std::filesystem;
constexpr auto kDeadline = std::chrono::seconds(60);

// An agent without processes: every rank that it must run "runs" at once.
class LightAgent {
 public:
  LightAgent(std::string name, const std::string& address, const std::string& token)
      : name_(std::move(name)),
        stream_({.address = address, .credentials = {.token = token}},
                [this](wire::AgentStreamEvent event) {
                  const std::lock_guard lock(mutex_);
                  events_.push_back(std::move(event));
                  changed_.notify_all();
                }) {}

  // Follows its orders until `is_enough` accepts one.
  template <class IsEnough>
  std::optional<Assignment> Follow(IsEnough is_enough) {
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
      std::optional<wire::AgentStreamEvent> event = Next(until);
      if (!event.has_value()) return std::nullopt;
      if (std::holds_alternative<wire::StreamOpened>(*event)) {
        stream_.Send(wire::Register{Report()});
      }
      if (const auto* assignment = std::get_if<Assignment>(&*event)) {
        Obey(*assignment);
        if (is_enough(*assignment)) return *assignment;
      }
    }
  }
  std::optional<Assignment> FollowUntil(Assignment::Kind kind) {
    return Follow([kind](const Assignment& assignment) { return assignment.kind == kind; });
  }

  // The refusal that it gets instead of an assignment.
  std::optional<wire::Refusal> RefusalOf(uint32_t version_major, uint32_t version_minor) {
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
      std::optional<wire::AgentStreamEvent> event = Next(until);
      if (!event.has_value() || std::holds_alternative<wire::Welcome>(*event)) return std::nullopt;
      if (const auto* refusal = std::get_if<wire::Refusal>(&*event)) return *refusal;
      if (!std::holds_alternative<wire::StreamOpened>(*event)) continue;
      NodeReport report = Report();
      report.version_major = version_major;
      report.version_minor = version_minor;
      stream_.Send(wire::Register{report});
    }
  }

  void Beat() {
    stream_.Send(wire::Heartbeat{
        .generation = assignment_.generation, .store_port = 30'000, .ranks = ranks_});
  }

 private:
  NodeReport Report() const {
    NodeReport report = TestReport(name_);
    report.generation = assignment_.generation;
    report.ranks = ranks_;
    return report;
  }
  void Obey(const Assignment& assignment) {
    if (assignment.kind == Assignment::Kind::kRun &&
        assignment.generation != assignment_.generation) {
      ranks_ = {{.generation = assignment.generation,
                 .rank = Rank(assignment.first_rank),
                 .pid = 77,
                 .state = RankReport::State::kStepping,
                 .step = 5,
                 .step_count = 5}};
    }
    if (assignment.kind == Assignment::Kind::kStop || assignment.kind == Assignment::Kind::kLeave) {
      for (RankReport& rank : ranks_) {
        rank.state = RankReport::State::kExited;
        rank.exit = {.kind = ExitCause::Kind::kSignaled, .code = 15, .asked = true};
        stream_.Send(wire::RankEnd{rank});
      }
      ranks_.clear();
    }
    assignment_ = assignment;
    Beat();
  }
  std::optional<wire::AgentStreamEvent> Next(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    while (events_.empty()) {
      const auto pulse = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      if (changed_.wait_until(lock, std::min(until, pulse)) == std::cv_status::timeout) {
        if (std::chrono::steady_clock::now() >= until) return std::nullopt;
        lock.unlock();
        Beat();
        lock.lock();
      }
    }
    wire::AgentStreamEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<wire::AgentStreamEvent> events_;
  Assignment assignment_;
  std::vector<RankReport> ranks_;
  wire::AgentStream stream_;
};

class MainTest : public testing::Test {
 protected:
  void SetUp() override {
    run_dir_ = fs::path(testing::TempDir()) /
               ("master-" + std::to_string(getpid()) + "-" +
                testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(run_dir_);
    fs::create_directories(run_dir_);
    ASSERT_TRUE(wire::WriteSecretFile(run_dir_ / "token", token_ + "\n").ok());
    WriteSpec({});
  }
  void TearDown() override { fs::remove_all(run_dir_); }

  void WriteSpec(const Timers& timers, uint32_t nodes_min = 2) {
    wire::SpecFile spec;
    spec.job = {.job_id = "job",
                .nodes_min = nodes_min,
                .nodes_max = 2,
                .nproc_per_node = 1,
                .timers = timers};
    spec.job.timers.lost_after = Duration::Seconds(20);  // a loaded machine must not fail it
    spec.job.timers.lost_after_max = Duration::Seconds(20);
    ASSERT_TRUE(wire::WriteSpecFile(spec, run_dir_ / "spec.json").ok());
  }

  // Waits until a master has written its address to job.json.
  std::string Address() {
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    for (;;) {
      const auto address = ReadMasterAddress(run_dir_);
      if (address.ok()) return address->addr;
      if (std::chrono::steady_clock::now() > until) return "nowhere:1";
      std::this_thread::yield();
    }
  }
  wire::ControlClient Control() {
    return wire::ControlClient(
        {.address = Address(), .credentials = {.token = token_}, .timeout = Duration::Seconds(60)});
  }
  wire::SupervisorStream Launcher(const std::string& address) {
    return {{.address = address, .credentials = {.token = token_}}, [](wire::SupervisorEvent) {}};
  }

  const std::string token_ = wire::MakeToken();
  fs::path run_dir_;
};

// The master ends when launcher, agents and watchers have heard the end, however slow they are.
TEST_F(MainTest, AJobFromItsFirstNodeToItsEnd) {
  WriteSpec({.finish_linger = Duration::Seconds(120)});
  absl::Status result = absl::UnknownError("still running");
  std::thread master([&] { result = RunMaster({.run_dir = run_dir_}); });
  const std::string address = Address();
  const auto launcher = Launcher(address);
  auto first = std::make_unique<LightAgent>("node0", address, token_);
  auto second = std::make_unique<LightAgent>("node1", address, token_);
  std::thread other([&] {
    second->FollowUntil(Assignment::Kind::kRun);
    second->FollowUntil(Assignment::Kind::kLeave);
  });
  const auto told = first->FollowUntil(Assignment::Kind::kRun);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->world_size, 2u);
  EXPECT_EQ(told->generation, Generation(1));
  std::thread follow([&] { first->FollowUntil(Assignment::Kind::kLeave); });

  auto control = Control();
  const auto status = control.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->generation, 1u);
  EXPECT_EQ(status->nodes.size(), 2u);
  EXPECT_EQ(status->journal, "ok");
  ASSERT_TRUE(control.Stop({.why = "the test asked", .exit_code = 130}).ok());

  std::vector<std::string> kinds;
  uint64_t seq = 0;
  // This client is connected already. WatchEvents does not wait for a connection.
  EXPECT_TRUE(control
                  .WatchEvents(1, true,
                               [&](const wire::JobEvent& event) {
                                 EXPECT_EQ(event.seq, ++seq);
                                 kinds.push_back(event.kind);
                                 return true;
                               })
                  .ok());
  other.join();
  follow.join();
  first.reset();
  second.reset();
  master.join();
  EXPECT_TRUE(result.ok()) << result;
  ASSERT_FALSE(kinds.empty());
  EXPECT_EQ(kinds.front(), "job_created");
  EXPECT_EQ(kinds.back(), "job_finished");

  // Its journal can be read without a master, and has the watched events.
  const auto records = ReadJournal(run_dir_ / "journal.db");
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(records->size(), kinds.size());
  // A master that starts on a finished job says so and exits.
  const auto again = Launcher(address);
  EXPECT_TRUE(RunMaster({.run_dir = run_dir_}).ok());
}

// An operator repeats at each connection what its user wants.
TEST_F(MainTest, ASizeThatThePlatformWantsIsChosenOnceAndWithinTheLimits) {
  WriteSpec({}, /*nodes_min=*/1);
  std::thread master([&] { EXPECT_TRUE(RunMaster({.run_dir = run_dir_}).ok()); });
  auto launcher = Launcher(Address());
  auto control = Control();
  ASSERT_TRUE(control.GetStatus().ok());
  for (const uint32_t nodes : {7u, 1u, 1u, 2u}) {
    const wire::SizeWanted wanted{.nodes = nodes, .why = "the platform wants it"};
    while (!launcher.Send(wanted)) std::this_thread::yield();  // it is not connected yet
  }
  std::vector<std::string> chosen;
  EXPECT_TRUE(control
                  .WatchEvents(1, true,
                               [&](const wire::JobEvent& event) {
                                 if (event.kind == "size_chosen") chosen.push_back(event.sentence);
                                 return chosen.size() < 2;
                               })
                  .ok());
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[0], "the job is to have 1 node: the platform wants it");
  EXPECT_EQ(chosen[1], "the job is to have 2 nodes: the platform wants it");
  EXPECT_TRUE(control.Stop({.why = "the test asked"}).ok());
  master.join();
}

TEST_F(MainTest, AgentsOfOtherReleasesAreRefusedInFourParts) {
  std::thread master([&] { EXPECT_TRUE(RunMaster({.run_dir = run_dir_}).ok()); });
  const std::string address = Address();
  const std::pair<uint32_t, uint32_t> others[] = {
      {kVersionMajor, kVersionMinor + 1}, {kVersionMajor + 1, kVersionMinor}, {9, 9}};
  for (const auto& [version_major, version_minor] : others) {
    LightAgent agent("node0", address, token_);
    const auto refusal = agent.RefusalOf(version_major, version_minor);
    ASSERT_TRUE(refusal) << version_major << "." << version_minor;
    EXPECT_EQ(refusal->code, "PL-E036");
    EXPECT_FALSE(refusal->what.empty() || refusal->fix.empty());
    EXPECT_NE(
        refusal->why.find(std::to_string(version_major) + "." + std::to_string(version_minor)),
        std::string::npos);
    EXPECT_FALSE(refusal->retry);
  }
  LightAgent previous("node1", address, token_);
  EXPECT_FALSE(previous.RefusalOf(kVersionMajor, kVersionMinor > 0 ? kVersionMinor - 1 : 0))
      << "the previous minor version is welcome";
  EXPECT_TRUE(Control().Stop({.why = "the test asked"}).ok());
  previous.FollowUntil(Assignment::Kind::kLeave);
  master.join();
}

TEST_F(MainTest, ProblemsAreToldAtOnce) {
  const auto code = [](const absl::Status& status) {
    const auto problem = ProblemOf(status);
    return problem.has_value() ? problem->code : std::string(status.message());
  };
  EXPECT_EQ(code(RunMaster({.run_dir = run_dir_, .listen = "0.0.0.0:0"})), "PL-E101");
  EXPECT_EQ(code(RunMaster({.run_dir = run_dir_, .listen = "nonsense"})), "PL-E043");
  EXPECT_EQ(code(RunMaster({.run_dir = run_dir_, .listen = "1.2.3.4:29400", .insecure = true})),
            "PL-E031");
  fs::permissions(run_dir_ / "token", fs::perms::all);
  EXPECT_EQ(code(RunMaster({.run_dir = run_dir_})), "PL-E103");
  ASSERT_TRUE(wire::WriteSecretFile(run_dir_ / "token", "short").ok());
  EXPECT_EQ(code(RunMaster({.run_dir = run_dir_})), "PL-E025");
}

TEST(Listen, LoopbackIsRecognised) {
  EXPECT_TRUE(IsLoopback("127.0.0.1:1"));
  EXPECT_TRUE(IsLoopback("localhost:1"));
  EXPECT_TRUE(IsLoopback("[::1]:1"));
  EXPECT_FALSE(IsLoopback("0.0.0.0:1"));
  EXPECT_FALSE(IsLoopback("[::]:1"));
  EXPECT_FALSE(IsLoopback("127.evil.test:1"));
}

TEST(JobFile, KeepsWhatOthersWrote) {
  const TestDir own;
  const fs::path dir = own.path();
  ASSERT_TRUE(wire::WriteSecretFile(dir / "job.json",
                                    R"({"schema":"paceline.job/1","id":"a","argv":["x"]})")
                  .ok());
  EXPECT_EQ(ReadMasterAddress(dir).status().code(), absl::StatusCode::kNotFound);
  const MasterAddress address{
      .addr = "127.0.0.1:1", .http = "127.0.0.1:2", .pid = 3, .start_time = OwnStartTime()};
  EXPECT_GT(address.start_time, 0u);
  ASSERT_TRUE(WriteMasterAddress(dir, "a", address).ok());
  EXPECT_EQ(*ReadMasterAddress(dir), address);
  const auto text = wire::ReadSecretFile(dir / "job.json", 10'000);
  EXPECT_NE(text->find("argv"), std::string::npos);
}

}  // namespace
}  // namespace paceline::master
