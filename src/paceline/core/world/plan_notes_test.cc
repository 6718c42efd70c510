// Parallel plans that ranks tell of: recorded once, and a world is only formed if its devices hold
// the model.

#include "paceline/core/world/plan_notes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/core/job.h"
#include "paceline/core/test_times.h"
#include "paceline/model/test_report.h"

namespace paceline::core {
namespace {

// A model of two layers, each with `millions` of parameters, 16 bytes each.
std::string Summary(int millions) {
  return Concat(R"({"schema":"paceline.model/1","name":"net","precision":"fp32",)",
                R"("bytes":{"weight":4,"gradient":4,"optimizer":8,"compute":4},)",
                R"("layers":[{"name":"{}","count":2,)", R"("flops":1e9,"parameters":)",
                millions * 1'000'000, R"(,"saved":1000,"output":1000}]})");
}

std::string ClusterText(const std::vector<std::pair<std::string, int>>& devices, int mebi) {
  std::string types;
  std::string groups;
  for (const auto& [name, count] : devices) {
    const std::string comma = types.empty() ? "" : ",";
    Append(&types, comma, R"({"name":")", name, R"(","flops":1e12,"bandwidth":1e11,"launch":0,)",
           R"("memory":)", int64_t{mebi} << 20, R"(,"source":"measured"})");
    Append(&groups, comma, R"({"type":")", name, R"(","count":)", count, "}");
  }
  return Concat(R"({"schema":"paceline.cluster/1","types":[)", types, R"(],"groups":[)", groups,
                R"(],"node":1,"inner":{"seconds":1e-5,"bandwidth":1e9},)",
                R"("outer":{"seconds":1e-5,"bandwidth":1e9}})");
}

// A job of three nodes with one rank each, that trains.
class PlanNotesTest : public ::testing::Test {
 protected:
  PlanNotesTest() {
    spec_.job_id = "planned";
    spec_.nodes_min = 1;
    spec_.nodes_max = 3;
    spec_.nproc_per_node = 1;
    spec_.timers.shrink_after = Duration::Seconds(1);
    Take(job_.Step(now_, JobSubmitted{spec_}));
    Take(job_.Step(now_, MasterStarted{1}));
    for (uint32_t node = 1; node <= 3; ++node) Join(node);
    for (uint32_t node = 1; node <= 3; ++node) Beat(node);
  }

  void Take(const Actions& actions) {
    for (const Record& record : actions.records) records_.push_back(record);
    for (const Note& note : actions.notes) notes_.push_back(note.text);
  }
  ConnectionId ConnectionOf(uint32_t node) const { return ConnectionId(100 * master_ + node); }
  void Join(uint32_t node) {
    NodeReport report = TestReport("n" + std::to_string(node));
    report.slots = 1;
    report.store_port = 4000;
    report.generation = job_.state().generation;
    if (job_.state().IsSeated(NodeId(node))) report.ranks = {RankOf(node)};
    Take(job_.Step(now_, NodeRegistered{ConnectionOf(node), report}));
  }
  RankReport RankOf(uint32_t node) const {
    RankReport rank;
    rank.generation = job_.state().generation;
    rank.rank = Rank(node - 1);
    rank.pid = 100;
    rank.state = RankReport::State::kStepping;
    rank.step_count = 50;
    return rank;
  }
  void Beat(uint32_t node) {
    Take(job_.Step(now_, NodeReported{.node = NodeId(node),
                                      .connection = ConnectionOf(node),
                                      .generation = job_.state().generation,
                                      .store_port = 4000,
                                      .ranks = {RankOf(node)}}));
  }
  // As rank 0 of the present world, which runs on node 1, tells it.
  PlanNote NoteOf(const std::string& words, int millions = 1, int mebi = 1000) const {
    const auto size = static_cast<int>(job_.state().world->world_size());
    return {.generation = job_.state().world->generation,
            .summary = Summary(millions),
            .wishes = R"({"global_batch":8})",
            .cluster = ClusterText({{"cpu", size}}, mebi),
            .plan = "{}",
            .words = words,
            .because = "it is chosen for these devices",
            .step = 0.25};
  }
  void Tell(PlanNote note, uint32_t node = 1) {
    Take(job_.Step(now_, PlanReported{NodeId(node), ConnectionOf(node), std::move(note)}));
  }
  void Lose(uint32_t node) {
    now_ += Duration::Milliseconds(100);
    Take(job_.Step(now_, NodeGone{.name = "n" + std::to_string(node), .evidence = "died"}));
    Take(job_.Step(now_, NodeDisconnected{NodeId(node), ConnectionOf(node)}));
    Take(job_.Step(now_, NodeGone{.name = "n" + std::to_string(node), .evidence = "died"}));
  }
  // Until the job has done what it waited for; the nodes that are left go on to report.
  void Pass(const std::vector<uint32_t>& left) {
    for (int i = 0; i < 40; ++i) {
      now_ += Duration::Milliseconds(100);
      for (const uint32_t node : left) {
        Take(job_.Step(now_, NodeReported{.node = NodeId(node),
                                          .connection = ConnectionOf(node),
                                          .generation = job_.state().generation,
                                          .store_port = 4000,
                                          .ranks = {}}));
      }
      Take(job_.Step(now_, TimePassed{}));
    }
  }
  size_t Count(std::string_view kind) const {
    return static_cast<size_t>(
        std::count_if(records_.begin(), records_.end(),
                      [&](const Record& record) { return FactName(record.fact) == kind; }));
  }
  std::string LastOf(std::string_view kind) const {
    for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
      if (FactName(record->fact) == kind) return Sentence(*record);
    }
    return "";
  }

  JobSpec spec_;
  Instant now_ = Instant() + Duration::Seconds(100);
  Job job_;
  uint64_t master_ = 1;
  std::vector<Record> records_;
  std::vector<std::string> notes_;
};

TEST_F(PlanNotesTest, IsRecordedOnceWithItsSentence) {
  Tell(NoteOf("data 3"));
  EXPECT_EQ(LastOf("model_described"),
            "the model is net with 2.00 million parameters; a step takes 8 samples");
  EXPECT_EQ(LastOf("parallel_plan_chosen"),
            "world 1 trains by the plan data 3, 250 ms a step as predicted: it is chosen for these "
            "devices");
  Tell(NoteOf("data 3"));
  EXPECT_EQ(Count("parallel_plan_chosen"), 1u);
  EXPECT_EQ(records_.back().causes, std::vector<RecordSeq>{job_.state().world_seq});
}

TEST_F(PlanNotesTest, AnotherPlanOfTheSameWorldNamesTheOneBefore) {
  Tell(NoteOf("data 3"));
  Tell(NoteOf("data 2"));
  EXPECT_EQ(Count("model_described"), 1u);
  EXPECT_EQ(
      LastOf("parallel_plan_chosen"),
      "world 1 trains by the plan data 2 instead of data 3, 250 ms a step as predicted: it is "
      "chosen for these devices");
}

TEST_F(PlanNotesTest, RanksThatWaitForAnotherPlanGetAWorldAtOnce) {
  Tell(NoteOf("pipeline 2"));
  PlanNote next = NoteOf("pipeline 2 (gpipe)");
  next.moves = true;
  next.because = "stage 1 took 60 % longer than predicted";
  Tell(next, /*node=*/2);
  EXPECT_EQ(Count("recovery_decided"), 0u) << "rank 0 speaks for all";
  Tell(next);
  EXPECT_EQ(LastOf("recovery_decided"),
            "move layers: pipeline 2 (gpipe) instead of pipeline 2, as stage 1 took 60 % longer "
            "than predicted");
  EXPECT_EQ(LastOf("world_ended"), "world 1 ended: its layers move");
  EXPECT_EQ(LastOf("world_formed"), "world 2 has 3 nodes and 3 ranks: n1, n2, n3");
  EXPECT_EQ(Count("rank_failed"), 0u);
  EXPECT_EQ(job_.state().budget.charged_failures, 0u);
  const size_t before = records_.size();
  Tell(next);  // an agent repeats it
  EXPECT_EQ(records_.size(), before);
  Tell(NoteOf("pipeline 2 (gpipe)"));
  EXPECT_EQ(Count("parallel_plan_chosen"), 2u);
}

TEST_F(PlanNotesTest, OnlyRankZeroOfThePresentWorldIsHeard) {
  Tell(NoteOf("data 3"), /*node=*/2);
  PlanNote late = NoteOf("data 3");
  late.generation = Generation(77);
  Tell(late);
  Take(job_.Step(now_, PlanReported{NodeId(1), ConnectionId(7), NoteOf("data 3")}));
  Take(job_.Step(now_, PlanReported{NodeId(9), ConnectionId(7), NoteOf("data 3")}));
  EXPECT_EQ(Count("parallel_plan_chosen"), 0u);
}

TEST_F(PlanNotesTest, WhatCannotBeReadIsRefusedBeforeTheJournal) {
  PlanNote note = NoteOf("data 3");
  note.summary = "{}";
  Tell(note);
  note = NoteOf("data 3");
  note.wishes = "[";
  Tell(note);
  note = NoteOf("data 3");
  note.cluster = ClusterText({{"cpu", 2}}, 1000);
  Tell(note);
  EXPECT_EQ(Count("parallel_plan_chosen"), 0u);
  ASSERT_EQ(notes_.size(), 3u);
  EXPECT_NE(notes_.back().find("another number of devices"), std::string::npos) << notes_.back();
}

TEST_F(PlanNotesTest, ANewMasterHasThePlanFromTheJournal) {
  Tell(NoteOf("data 3"));
  Job next;
  for (const Record& record : records_) next.Restore(record);
  EXPECT_EQ(next.state(), job_.state());
  job_ = next;
  master_ = 2;
  Take(job_.Step(now_, MasterStarted{2}));
  for (uint32_t node = 1; node <= 3; ++node) Join(node);
  Tell(NoteOf("data 3"));
  EXPECT_EQ(Count("parallel_plan_chosen"), 1u);
}

TEST_F(PlanNotesTest, ASmallerWorldThatHoldsTheModelIsFormed) {
  Tell(NoteOf("data 3", /*millions=*/1));
  Lose(3);
  Pass({1, 2});
  EXPECT_EQ(job_.state().last_world.seats.size(), 2u) << job_.Pending();
}

// 2 layers with 20 million parameters of 16 bytes: 640 MB, divided over three ranks of 400 MiB.
TEST_F(PlanNotesTest, ASmallerWorldThatCannotHoldTheModelIsNotFormed) {
  Tell(NoteOf("data 3, sharded state", /*millions=*/20, /*mebi=*/400));
  ASSERT_EQ(Count("parallel_plan_chosen"), 1u) << notes_.back();
  Lose(3);
  Lose(2);
  Pass({1});
  EXPECT_EQ(job_.state().phase, Phase::kWaiting);
  EXPECT_FALSE(job_.state().world.has_value());
  const std::string pending = job_.Pending();
  EXPECT_NE(pending.find("waits for more devices: the model does not fit"), std::string::npos)
      << pending;
  EXPECT_NE(pending.find("what would help: "), std::string::npos) << pending;
  EXPECT_EQ(LastOf("wait_began"), pending);
  // A node that nobody knows comes: it is believed to be like the others.
  Join(4);
  Pass({1, 4});
  EXPECT_EQ(job_.state().last_world.seats.size(), 2u) << job_.Pending();
}

// A script may ask for a replica on each rank, and asks for fewer in a smaller world.
TEST_F(PlanNotesTest, AWishThatASmallerWorldCannotMeetRefusesNoWorld) {
  PlanNote note = NoteOf("data 3");
  note.wishes = R"({"global_batch":9,"data":[3]})";
  Tell(note);
  ASSERT_EQ(Count("parallel_plan_chosen"), 1u) << notes_.back();
  Lose(3);
  Pass({1, 2});
  EXPECT_EQ(job_.state().last_world.seats.size(), 2u) << job_.Pending();
}

// What ran is believed to fit, whatever is predicted.
TEST_F(PlanNotesTest, TheSameDevicesAreNeverRefused) {
  Tell(NoteOf("data 1", /*millions=*/900, /*mebi=*/100));
  ASSERT_EQ(Count("parallel_plan_chosen"), 1u);
  Lose(3);
  Join(3);
  Pass({1, 2, 3});
  EXPECT_EQ(job_.state().last_world.seats.size(), 3u) << job_.Pending();
}

}  // namespace
}  // namespace paceline::core
