#include "paceline/agent/hang/evidence_desk.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "paceline/agent/hang/process_look.h"
#include "paceline/agent/hang/stack_sampler.h"
#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

// A child that sleeps until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void Stop() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }
  ProcessId id() const { return {pid_, StartTimeOf(pid_)}; }

 private:
  pid_t pid_;
};

void WriteRing(const std::string& path, uint64_t generation) {
  std::vector<uint64_t> words(kRingBytes / 8);
  FormatRing(std::as_writable_bytes(std::span(words)), generation, 2, 77);
  auto& ring = *reinterpret_cast<RingHeader*>(words.data());
  ring.phase = RankPhase::kForward;
  std::memcpy(NameOf(ring, 1), "0 0-1", 5);
  std::memcpy(NameOf(ring, 2), "all_reduce", 10);
  ring.names_used = 2;
  for (uint64_t number = 0; number < 9; ++number) {
    FlightRecord& record = RecordOf(ring, number);
    record.kind = FlightKind::kCollective;
    record.group = 1;
    record.operation = 2;
    record.sequence = number + 1;
    record.begun_ns = 5;
    record.completed_ns = number < 8 ? 6 : 0;
    record.commit = number + 1;
  }
  ring.begun = 9;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(kRingBytes));
}

TEST(ProcessLook, SaysThatAProcessSleepsOrIsStopped) {
  const Sleeper sleeper;
  ProcessLook look = LookAt(sleeper.id());
  EXPECT_TRUE(look.is_there);
  EXPECT_NE('T', look.state);
  sleeper.Stop();
  look = LookAt(sleeper.id());
  EXPECT_EQ('T', look.state);
}

TEST(ProcessLook, SeesNothingOfAnotherProcessWithThatPid) {
  const Sleeper sleeper;
  ProcessId other = sleeper.id();
  ++other.start_time_ticks;
  EXPECT_FALSE(LookAt(other).is_there);
  EXPECT_FALSE(LookAt({1 << 30, 5}).is_there);
}

TEST(ProcessLook, ReadsNamesWithSpacesAndParentheses) {
  const TestDir dir;
  const std::string folder = dir.path() + "/7";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/stat") << "7 (a) b (c) S 1 1 1 0 -1 0 0 0 0 0 25 50 0 0 20 0 1 0 99 0";
  std::ofstream(folder + "/io") << "rchar: 40\nwchar: 2\nsyscr: 9\n";
  std::ofstream(folder + "/syscall") << "202 0x7f 0x80 0x0 0x0 0x0 0x0 0x7ffe 0x7f\n";
  const ProcessLook look = LookAt({7, 99}, dir.path());
  EXPECT_TRUE(look.is_there);
  EXPECT_EQ('S', look.state);
  EXPECT_EQ(Duration::Milliseconds(750), look.cpu);
  EXPECT_EQ(42u, look.bytes);
  EXPECT_EQ("a lock", look.waits_in);
}

TEST(ProcessLook, NamesTheFileThatACallIsAbout) {
  const TestDir dir;
  const std::string folder = dir.path() + "/7";
  std::filesystem::create_directories(folder + "/fd");
  std::filesystem::create_symlink("/data/train.bin", folder + "/fd/26");
  std::ofstream(folder + "/stat") << "7 (x) D 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0";
  std::ofstream(folder + "/syscall") << "0 0x1a 0x7f 0x0 0x0 0x0 0x0 0x7ffe 0x7f\n";
  EXPECT_EQ("read of /data/train.bin", LookAt({7, 99}, dir.path()).waits_in);
}

TEST(ProcessLook, AFileThatAChildWaitsForIsWhatItsParentWaitsFor) {
  const TestDir dir;
  const auto add = [&dir](int pid, const std::string& call) {
    const std::string folder = Concat(dir.path(), "/", pid);
    std::filesystem::create_directories(Concat(folder, "/task/", pid));
    std::filesystem::create_directories(folder + "/fd");
    std::filesystem::create_symlink(pid == 9 ? "/data/train.bin" : "pipe:[4]", folder + "/fd/3");
    std::ofstream(folder + "/stat") << pid << " (x) S 1 1 1 0 -1 0 0 0 0 0 25 0 0 0 20 0 1 0 99 0";
    std::ofstream(folder + "/io") << "rchar: 10\n";
    std::ofstream(folder + "/syscall") << call << " 0x3 0x7f 0x0 0x0 0x0 0x0 0x7ffe 0x7f\n";
  };
  add(7, "7");
  add(8, "0");
  add(9, "0");
  std::ofstream(dir.path() + "/7/task/7/children") << "8 9 ";
  const ProcessLook look = LookAt({7, 99}, dir.path());
  EXPECT_EQ("read of /data/train.bin, in a child process", look.waits_in);
  EXPECT_EQ(Duration::Milliseconds(750), look.cpu);
  EXPECT_EQ(30u, look.bytes);
}

TEST(ProcessLook, NamesAStoppedChild) {
  const TestDir dir;
  const auto add = [&dir](int pid, char state) {
    const std::string folder = Concat(dir.path(), "/", pid);
    std::filesystem::create_directories(Concat(folder, "/task/", pid));
    std::ofstream(folder + "/stat")
        << pid << " (x) " << state << " 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0";
  };
  add(7, 'S');
  add(8, 'S');
  add(9, 'T');
  std::ofstream(dir.path() + "/7/task/7/children") << "8 ";
  EXPECT_EQ(0, LookAt({7, 99}, dir.path()).stopped_child);
  std::ofstream(dir.path() + "/7/task/7/children") << "8 9 ";
  EXPECT_EQ(9, LookAt({7, 99}, dir.path()).stopped_child);
}

// So that work is not missed: a child of another thread, its child, and children that have ended.
TEST(ProcessLook, CountsAllDescendants) {
  const TestDir dir;
  const auto add = [&dir](int pid, int thread, const std::string& children) {
    const std::string folder = Concat(dir.path(), "/", pid);
    std::filesystem::create_directories(Concat(folder, "/task/", thread));
    std::ofstream(Concat(folder, "/task/", thread, "/children")) << children;
    std::ofstream(folder + "/stat") << pid << " (x) S 1 1 1 0 -1 0 0 0 0 0 10 0 5 5 20 0 1 0 99 0";
    std::ofstream(folder + "/io") << "rchar: 10\n";
  };
  add(7, 7, "");
  add(7, 8, "9 ");
  add(9, 9, "10 ");
  add(10, 10, "");
  const ProcessLook look = LookAt({7, 99}, dir.path());
  EXPECT_EQ(Duration::Milliseconds(600), look.cpu);
  EXPECT_EQ(30u, look.bytes);
  EXPECT_TRUE(look.is_whole);
}

TEST(ProcessLook, TellsAHostWithoutFreeProcessors) {
  const TestDir dir;
  EXPECT_FALSE(IsHostPressed(dir.path()));  // a kernel without PSI
  std::filesystem::create_directories(dir.path() + "/pressure");
  const auto is_pressed = [&dir](const std::string& text) {
    std::ofstream(dir.path() + "/pressure/cpu") << text;
    return IsHostPressed(dir.path());
  };
  EXPECT_FALSE(is_pressed("some avg10=19.99 avg60=80.00 avg300=80.00 total=1\n"));
  EXPECT_TRUE(is_pressed("some avg10=20.00 avg60=0.00 avg300=0.00 total=1\n"));
  EXPECT_TRUE(is_pressed("some avg10=100.00 avg60=0.00 avg300=0.00 total=1\n"));
  EXPECT_FALSE(is_pressed("some avg10=x"));
}

TEST(StackSampler, TakesTheMainThreadsFramesInnermostFirst) {
  const std::string text = R"([
    {"pid": 9, "os_thread_id": 11, "frames": [{"name": "other", "filename": "o.py", "line": 1}]},
    {"pid": 9, "os_thread_id": 9, "frames": [
      {"name": "forward", "filename": "/u/train.py", "line": 41},
      {"name": "<module>", "filename": "/u/train.py", "line": 90}]}])";
  const StackSample sample = ParseStacks("a warning\n" + text, 9);
  EXPECT_EQ("", sample.problem);
  ASSERT_EQ(2u, sample.frames.size());
  EXPECT_EQ((StackFrame{"/u/train.py", 41, "forward"}), sample.frames[0]);
}

TEST(StackSampler, OfADeepStackTheScriptsLineIsKept) {
  std::string frames;
  for (int i = 1; i <= 40; ++i) {
    const char* file = i == 30 ? "/u/train.py" : "/usr/lib/python3.11/queues.py";
    Append(&frames, i > 1 ? "," : "", R"({"name": "f", "filename": ")", file, R"(", "line": )", i,
           "}");
  }
  const StackSample sample =
      ParseStacks(Concat(R"([{"os_thread_id": 9, "frames": [)", frames, "]}]"), 9);
  ASSERT_EQ(9u, sample.frames.size());
  EXPECT_EQ(1u, sample.frames[0].line);
  EXPECT_EQ(8u, sample.frames[7].line);
  EXPECT_EQ((StackFrame{"/u/train.py", 30, "f"}), sample.frames[8]);
}

TEST(StackSampler, WhatIsNoAnswerIsAProblem) {
  EXPECT_EQ("py-spy printed nothing", ParseStacks("", 9).problem);
  EXPECT_EQ("Error: Permission Denied", ParseStacks("Error: Permission Denied\n", 9).problem);
  EXPECT_NE("", ParseStacks("[{\"os_thread_id\": 4, \"frames\": []}]", 9).problem);
  EXPECT_TRUE(ParseStacks("[1, {\"os_thread_id\": 9, \"frames\": 3}]", 9).frames.empty());
}

TEST(StackSampler, OneThatHangsIsEndedInTime) {
  const TestDir dir;
  const std::string program = dir.path() + "/py-spy";
  std::ofstream(program) << "#!/bin/sh\nexec sleep 1000\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const StackSampler sampler(dir.path() + "/python");
  const StackSample sample =
      sampler.Sample(::getpid(), dir.path() + "/out", Duration::Milliseconds(50));
  EXPECT_EQ("py-spy did not answer within 50 ms", sample.problem);
}

// The looks of SettledLooks, one after the other: a letter a process.
class SettledLooksTest : public ::testing::Test {
 protected:
  static std::vector<ProcessLook> Of(const std::string& states) {
    std::vector<ProcessLook> looks;
    for (const char state : states) looks.push_back({.is_there = true, .state = state});
    return looks;
  }
  std::string Settle(const std::string& before, const std::vector<std::string>& later) {
    used_ = 0;
    std::string states;
    const auto looks = SettledLooks(Of(before), [&] { return Of(later.at(used_++)); });
    for (const ProcessLook& look : looks) states.push_back(look.state);
    return states;
  }
  size_t used_ = 0;
};

TEST_F(SettledLooksTest, LooksThatAgreeAreTakenAtOnce) {
  EXPECT_EQ("TS", Settle("TR", {"TS"}));
  EXPECT_EQ(1u, used_);
}

// Both were stopped. `kill -CONT` continues both after the second look has read the first process.
TEST_F(SettledLooksTest, OfTwoThatAreContinuedMeanwhileNoneSeemsStopped) {
  EXPECT_EQ("SR", Settle("TT", {"TS", "SS", "SR"}));
  EXPECT_EQ(3u, used_);
}

TEST_F(SettledLooksTest, AProcessThatIsStoppedAgainAndAgainIsInNoState) {
  EXPECT_EQ("T?", Settle("TS", {"TT", "TS", "TT", "TS"}));
  EXPECT_EQ(4u, used_);
}

TEST(FlightRings, ReadsRingsOfThatWorldAloneAndRemovesThem) {
  const TestDir dir;
  const std::string root = dir.path() + "/memory/job";
  std::filesystem::create_directory(dir.path() + "/memory");
  ASSERT_EQ(0, ::chmod((dir.path() + "/memory").c_str(), 0700));
  {
    FlightRings rings({root, "node0", "5eed"});
    ASSERT_NE("", rings.PathOf(0));
    EXPECT_FALSE(rings.Pulse(0, Generation(3)).has_value());
    WriteRing(rings.PathOf(0), 3);
    EXPECT_TRUE(rings.Pulse(0, Generation(3)).has_value());
    EXPECT_TRUE(rings.Read(0, Generation(3)).has_value());
    EXPECT_FALSE(rings.Pulse(0, Generation(4)).has_value());
    ASSERT_EQ(0, ::truncate(rings.PathOf(0).c_str(), 5000));
    EXPECT_TRUE(rings.Pulse(0, Generation(3)).has_value());
    EXPECT_FALSE(rings.Read(0, Generation(3)).has_value());
    rings.set_is_over({});
  }
  EXPECT_FALSE(std::filesystem::exists(root));
}

// The next incarnation of a node may run on this host before the former one has left.
TEST(FlightRings, TwoAgentsOfOneNodeHaveRingsOfTheirOwn) {
  const TestDir dir;
  const std::string root = dir.path() + "/memory/job";
  std::filesystem::create_directory(dir.path() + "/memory");
  ASSERT_EQ(0, ::chmod((dir.path() + "/memory").c_str(), 0700));
  FlightRings next({root, "node0", "fee1"});
  {
    FlightRings former({root, "node0", "5eed"});
    WriteRing(former.PathOf(0), 3);
    WriteRing(next.PathOf(0), 4);
    EXPECT_TRUE(former.Pulse(0, Generation(3)).has_value());
    former.set_is_over({});
  }
  EXPECT_TRUE(next.Pulse(0, Generation(4)).has_value()) << "the former one removed its own only";
}

TEST(EvidenceDesk, AnswersWithWhatRingAndKernelSay) {
  const TestDir dir;
  const std::string root = dir.path() + "/memory/job";
  std::filesystem::create_directory(dir.path() + "/memory");
  ASSERT_EQ(0, ::chmod((dir.path() + "/memory").c_str(), 0700));
  std::filesystem::create_directory(dir.path() + "/logs");
  auto reactor = Reactor::Create();
  ASSERT_TRUE(reactor.ok());
  std::optional<NodeEvidence> answer;
  EvidenceDesk desk(**reactor,
                    {.memory = root,
                     .node = "node0",
                     .mark = "5eed",
                     .python = dir.path() + "/python",
                     .log_dir = dir.path() + "/logs"},
                    [&](const NodeEvidence& found) {
                      answer = found;
                      (*reactor)->Stop();
                    });
  WriteRing(desk.rings().PathOf(0), 3);
  const Sleeper sleeper;
  sleeper.Stop();
  desk.NoteStops({{.pid = sleeper.id().pid, .stopped_by = SIGSTOP}});
  desk.Ask({Generation(3), 5, {{.rank = Rank(2), .local_rank = 0, .process = sleeper.id()}}});
  (*reactor)->Run();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(5u, answer->round);
  EXPECT_EQ(Generation(3), answer->generation);
  ASSERT_EQ(1u, answer->ranks.size());
  const RankEvidence& rank = answer->ranks[0];
  EXPECT_EQ('T', rank.state);
  EXPECT_EQ(SIGSTOP, rank.stopped_by);
  EXPECT_TRUE(rank.has_ring);
  EXPECT_EQ(RankPhase::kForward, rank.phase);
  ASSERT_EQ(kCollectivesSeenMax, rank.collectives.size());
  EXPECT_EQ(9u, rank.collectives.back().sequence);
  EXPECT_FALSE(rank.collectives.back().is_complete);
  EXPECT_TRUE(rank.collectives.front().is_complete);
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/logs/hang-3-5"));
}

TEST(EvidenceDesk, AHangsQuestionAndAPersonsBothGetTheirAnswer) {
  const TestDir dir;
  const std::string root = dir.path() + "/memory/job";
  std::filesystem::create_directory(dir.path() + "/memory");
  ASSERT_EQ(0, ::chmod((dir.path() + "/memory").c_str(), 0700));
  std::filesystem::create_directory(dir.path() + "/logs");
  auto reactor = Reactor::Create();
  std::vector<uint64_t> rounds;
  EvidenceDesk desk(**reactor, {root, "node0", "5eed", "", dir.path() + "/logs"},
                    [&](const NodeEvidence& found) {
                      rounds.push_back(found.round);
                      if (rounds.size() == 3) (*reactor)->Stop();
                    });
  desk.Ask({Generation(2), 1, {}});
  desk.Ask({Generation(2), 2, {}});
  desk.Ask({Generation(2), kAskedByPerson | 1, {}});
  desk.Ask({Generation(2), 3, {}});  // replaces question 2
  (*reactor)->Run();
  EXPECT_EQ((std::vector<uint64_t>{1, 3, kAskedByPerson | 1}), rounds);
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/logs/stacks-2-1"));
}

TEST(EvidenceDesk, KeepsTheNewestFoldersAlone) {
  const TestDir dir;
  const std::string root = dir.path() + "/memory/job";
  std::filesystem::create_directory(dir.path() + "/memory");
  ASSERT_EQ(0, ::chmod((dir.path() + "/memory").c_str(), 0700));
  for (int i = 0; i < 30; ++i) {
    std::filesystem::create_directories(Concat(dir.path(), "/logs/hang-1-", i));
  }
  std::filesystem::create_directories(dir.path() + "/logs/g1");
  auto reactor = Reactor::Create();
  EvidenceDesk desk(**reactor, {root, "node0", "5eed", "", dir.path() + "/logs"},
                    [&](const NodeEvidence&) { (*reactor)->Stop(); });
  desk.Ask({Generation(2), 1, {}});
  (*reactor)->Run();
  size_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() + "/logs")) {
    folders += entry.path().filename().string().starts_with("hang-") ? 1 : 0;
  }
  EXPECT_EQ(EvidenceDesk::kFoldersMax, folders);
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/logs/g1"));
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/logs/hang-2-1"));
}

}  // namespace
}  // namespace paceline::agent
