#include "paceline/master/report/status.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"
#include "paceline/base/text.h"
#include "paceline/core/goodput/time_class.h"
#include "paceline/master/report/event_row.h"
#include "paceline/master/report/metrics.h"
#include "paceline/master/report/summary.h"
#include "paceline/model/test_report.h"
#include "paceline/wire/codec/control_json.h"

namespace paceline::master {
namespace {

Instant At(int64_t seconds) { return Instant() + Duration::Seconds(seconds); }

TEST(EventRow, NamesNodesAndMembers) {
  NodeNames names;
  const core::Record joined{RecordSeq(1), At(1), {}, core::NodeJoined{NodeId(4), "node0"}};
  names.Fold(joined);
  core::WorldFormed formed;
  formed.world = {.generation = Generation(2), .seats = {{NodeId(4), 0, 2}, {NodeId(9), 2, 2}}};
  names.Fold({.fact = formed});
  const auto event = MakeJobEvent({RecordSeq(3), At(2), {RecordSeq(1)}, formed}, names);
  EXPECT_EQ(event.kind, "world_formed");
  EXPECT_EQ(event.generation, 2u);
  EXPECT_EQ(event.details.at("world"), "1");  // the first one that was formed
  EXPECT_EQ(event.causes, std::vector<uint64_t>{1});
  ASSERT_EQ(event.members.size(), 2u);
  EXPECT_EQ(event.members[0], (wire::WorldMember{"node0", 0, 0, 2}));
  EXPECT_EQ(event.members[1].node, "node 9");
  EXPECT_FALSE(event.sentence.empty());
  const std::string json = wire::EventJson(event);
  EXPECT_TRUE(json.starts_with(R"({"schema":"paceline.event/1","seq":3,"time":2.0,)")) << json;
  EXPECT_EQ(json.find('\n'), std::string::npos);
}

TEST(Summary, NamesTheCauseAndNotWhatFollowedFromIt) {
  SummaryTeller summary;
  uint64_t seq = 0;
  const auto last_after = [&](core::Fact fact) {
    summary.Fold({RecordSeq(++seq), At(1), {}, std::move(fact)});
    summary.TellAnew();
    return summary.Take(At(1), {}, {}, {})->last;
  };
  core::RankFailed failed{.node = NodeId(4), .node_name = "node0", .charged = true};
  failed.cause = {
      .kind = ExitCause::Kind::kExited, .code = 1, .headline = "RuntimeError: Connection reset"};
  const std::string first = last_after(failed);
  EXPECT_NE(first.find("node0"), std::string::npos) << first;
  failed.node_name = "node2";
  failed.charged = false;  // it had the same error after node0
  EXPECT_EQ(last_after(failed), first);
  const std::string lost =
      last_after(core::NodeLost{.node = NodeId(5), .name = "node1", .explains = true});
  EXPECT_NE(lost.find("node1 is lost"), std::string::npos) << lost;
  failed.explains = true;
  EXPECT_NE(last_after(failed).find("node2"), std::string::npos);
}

TEST(Summary, TellsTheChosenSizeAndWhyAnotherOneWasRefused) {
  SummaryTeller summary;
  EXPECT_FALSE(summary.Take(At(1), {}, {}, {})->size.has_value()) << "it is not known yet";
  summary.SetSize({});
  EXPECT_EQ(summary.Take(At(2), {}, {}, {})->size, 0u);
  summary.SetSize({.nodes = 3, .is_measured = true});
  summary.NoteWanted(9, "the job was started with --nnodes 1:4");
  const auto refused = summary.Take(At(3), {}, {}, {});
  EXPECT_EQ(refused->size, 3u);
  EXPECT_TRUE(refused->size_is_measured);
  EXPECT_EQ(refused->size_refused, 9u);
  EXPECT_EQ(refused->refusal, "the job was started with --nnodes 1:4");
  summary.NoteWanted(4, "");
  const auto taken = summary.Take(At(4), {}, {}, {});
  EXPECT_EQ(taken->size_refused, 0u);
  EXPECT_EQ(taken->refusal, "");
}

// A job that only waits would otherwise send a summary each second, because its lost time grows.
TEST(Summary, MeasuresAreReplacedSeldom) {
  SummaryTeller summary;
  EXPECT_TRUE(summary.NeedsMeasures(At(1)));
  summary.SetMeasures(At(1), {{"step", "", 7}});
  EXPECT_FALSE(summary.NeedsMeasures(At(10)));
  EXPECT_TRUE(summary.NeedsMeasures(At(11)));
  EXPECT_EQ(summary.Take(At(1), {}, {}, {})->measures.size(), 1u);
  EXPECT_FALSE(summary.Take(At(2), {}, {}, {}).has_value()) << "nothing has changed";
}

// A job of two nodes, of which the first is there with these ranks.
void RegisterOneOfTwo(core::Job* job, std::vector<RankReport> ranks = {}) {
  job->Step(At(1), core::JobSubmitted{{.job_id = "j", .nodes_min = 2, .nodes_max = 2}});
  job->Step(At(1), core::MasterStarted{1});
  job->Step(At(2), core::NodeRegistered{ConnectionId(1),
                                        {.name = "node0",
                                         .boot_id = "b",
                                         .agent_incarnation = 1,
                                         .agent_pid = 99,
                                         .slots = 1,
                                         .store_port = 1,
                                         .ranks = std::move(ranks)}});
}

TEST(Status, OfAnEmptyAndOfAWaitingJob) {
  core::Job job;
  const auto empty = MakeJobStatus(job, At(1), {.journal = "ok"});
  EXPECT_EQ(empty.world_size, 0u);
  RegisterOneOfTwo(&job);
  const auto status = MakeJobStatus(job, At(3), {.pid = 5, .journal = "ok"});
  EXPECT_EQ(status.phase, "waiting");
  EXPECT_FALSE(status.pending.empty());
  const std::string json = wire::StatusJson(status);
  EXPECT_NE(json.find("\"schema\": \"paceline.status/1\""), std::string::npos) << json;
}

TEST(Status, AKillOfPacelinesOwnIsNotTakenForOneFromOutside) {
  RankReport rank{.generation = Generation(1), .pid = 7, .state = RankReport::State::kExited};
  rank.exit = {.kind = ExitCause::Kind::kSignaled, .code = 9, .headline = "was killed by SIGKILL"};
  const auto exit_of = [&rank] {
    core::Job job;
    RegisterOneOfTwo(&job, {rank});
    return MakeJobStatus(job, At(3), {}).nodes.at(0).ranks.at(0).exit;
  };
  EXPECT_EQ(exit_of(), "was killed by SIGKILL");
  rank.exit.asked = true;
  EXPECT_EQ(exit_of(), "ended by paceline");
}

TEST(Status, TellsHowOldStorageIs) {
  core::Job job;
  job.Restore({RecordSeq(1), At(1), {}, core::JobCreated{}});
  EXPECT_EQ(MakeJobStatus(job, At(2), {}).checkpoints.storage_age, std::nullopt);
  job.Restore({RecordSeq(2),
               At(3),
               {},
               core::CheckpointCommitted{"step-8-g1", "/d", {.generation = 1, .step = 8}, 100}});
  const auto status = MakeJobStatus(job, At(10), {});
  EXPECT_EQ(status.checkpoints.storage_age, Duration::Seconds(7));
  const std::string json = wire::StatusJson(status);
  EXPECT_NE(json.find("\"storage_age_seconds\": 7.0"), std::string::npos) << json;
}

TEST(Status, TellsWhichRanksAreSlow) {
  core::Job job;
  job.Restore({RecordSeq(1), At(1), {}, core::JobCreated{}});
  const SlowFinding found{.ranks = {Rank(4), Rank(5)},
                          .node = "node1",
                          .is_whole_node = true,
                          .excess = 0.21,
                          .cost = 0.17,
                          .steps_a_day = 900};
  job.Restore({RecordSeq(2), At(2), {}, core::RankSlow{Generation(1), found}});
  const auto status = MakeJobStatus(job, At(3), {});
  ASSERT_EQ(status.slow.size(), 1u);
  EXPECT_EQ(status.slow[0].sentence,
            "ranks 4 to 5, all of node1: own work 21 % longer than the other ranks'; costs 17 % of "
            "the speed (900 steps a day)");
  const std::string metrics = MetricsText({.status = status});
  EXPECT_NE(metrics.find("paceline_slow_ranks 2\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("paceline_slow_cost_ratio 0.17\n"), std::string::npos) << metrics;
  job.Restore({RecordSeq(3), At(4), {}, core::RankNoLongerSlow{Generation(1), found}});
  EXPECT_TRUE(MakeJobStatus(job, At(5), {}).slow.empty());
}

// One node with one rank, which has raised an exception and does not end.
void HangOneRank(core::Job* job) {
  job->Step(At(1), core::JobSubmitted{{.job_id = "j", .nodes_min = 1, .nodes_max = 1}});
  job->Step(At(1), core::MasterStarted{1});
  job->Step(At(1), core::NodeRegistered{ConnectionId(1), TestReport("node0")});
  const Generation generation = job->state().generation;
  RankReport rank{.generation = generation, .pid = 7, .state = RankReport::State::kStepping};
  rank.step_count = 50;
  rank.is_quiet = true;
  job->Step(At(2), core::NodeReported{.node = NodeId(1),
                                      .connection = ConnectionId(1),
                                      .generation = generation,
                                      .store_port = 20'001,
                                      .ranks = {rank}});
  RankEvidence seen{.rank = Rank(0), .has_ring = true};
  seen.raised = "ValueError: bad batch (train.py:31)";
  seen.raised_for = seen.quiet_for = Duration::Seconds(12);
  NodeEvidence evidence{.generation = generation, .round = 1, .ranks = {seen}};
  job->Step(At(3), core::EvidenceCollected{NodeId(1), ConnectionId(1), evidence});
}

TEST(Status, SaysThatNoStepComesWhileAHangLasts) {
  core::Job job;
  HangOneRank(&job);
  const auto status = MakeJobStatus(
      job, At(3), {.pid = 5, .steps_per_second = 16.6, .since_step = Duration::Seconds(28)});
  ASSERT_TRUE(status.hang.has_value());
  EXPECT_EQ(status.hang->ranks, std::vector<uint32_t>{0});
  EXPECT_TRUE(status.pending.starts_with("no step for 28 s: Rank 0 on node0 raised ValueError"))
      << status.pending;
  EXPECT_EQ(status.steps_per_second, 0);
  const std::string json = wire::StatusJson(status);
  EXPECT_NE(json.find("\"sentence\": \"Rank 0 on node0 raised"), std::string::npos) << json;
}

// A stale pace looked healthy for as long as a hang was not named.
TEST(Status, SaysThatNoStepComesBeforeAHangIsNamed) {
  core::Job job;
  job.Step(At(1), core::JobSubmitted{{.job_id = "j", .nodes_min = 1, .nodes_max = 1}});
  job.Step(At(1), core::MasterStarted{1});
  job.Step(At(1), core::NodeRegistered{ConnectionId(1), TestReport("node0")});
  const Generation generation = job.state().generation;
  RankReport rank{.generation = generation, .pid = 7, .state = RankReport::State::kStepping};
  rank.step_count = 50;
  core::NodeReported report{.node = NodeId(1), .connection = ConnectionId(1)};
  report.generation = generation;
  report.ranks = {rank};
  job.Step(At(2), report);
  ASSERT_EQ(job.state().phase, core::Phase::kRunning);
  const HostView still = {
      .steps_per_second = 9, .since_step = Duration::Seconds(12), .is_still = true};
  EXPECT_EQ(MakeJobStatus(job, At(3), still).pending,
            "no step for 12 s; its ranks are examined when one of them does nothing any more");
  EXPECT_EQ(MakeJobStatus(job, At(3), still).steps_per_second, 0);
  report.ranks[0].is_quiet = true;
  job.Step(At(3), report);
  EXPECT_EQ(MakeJobStatus(job, At(3), still).pending,
            "no step for 12 s; the nodes are asked what their ranks do");
  NodeEvidence evidence{.generation = generation, .round = 1, .ranks = {{.rank = Rank(0)}}};
  job.Step(At(4), core::EvidenceCollected{NodeId(1), ConnectionId(1), evidence});
  const std::string pending = MakeJobStatus(job, At(4), still).pending;
  EXPECT_TRUE(pending.starts_with("no step for 12 s; its ranks are examined again in ")) << pending;
}

// A signal to process 0 would reach everybody in the sender's own group.
TEST(Status, AProcessThatIsNotKnownIsNull) {
  wire::JobStatus status;
  status.nodes.push_back({.name = "n", .ranks = {{.rank = 3}}});
  const std::string unknown = wire::StatusJson(status);
  EXPECT_NE(unknown.find("\"agent_pid\": null"), std::string::npos) << unknown;
  EXPECT_EQ(unknown.find("pid\": 0"), std::string::npos) << unknown;
  status.master_pid = 5;
  status.nodes[0].ranks[0].pid = 7;
  const std::string known = wire::StatusJson(status);
  EXPECT_NE(known.find("\"pid\": 5"), std::string::npos) << known;
  EXPECT_NE(known.find("\"pid\": 7"), std::string::npos) << known;
}

TEST(Metrics, AreOpenMetricsText) {
  wire::JobStatus status{.phase = "running", .generation = 3, .step = 12, .journal = "ok"};
  status.checkpoints.memory_restores = 2;
  StateCounts counts;
  counts.nodes[static_cast<size_t>(core::NodeState::Status::kSeated)] = 1;
  counts.ranks[static_cast<size_t>(RankReport::State::kStepping)] = 8;
  const std::string text =
      MetricsText({.status = status, .counts = counts, .counters = {.events = 7}});
  EXPECT_NE(text.find("paceline_phase{phase=\"running\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("paceline_events_total 7\n"), std::string::npos);
  EXPECT_NE(text.find("paceline_nodes{state=\"seated\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("paceline_ranks{state=\"stepping\"} 8\n"), std::string::npos);
  EXPECT_NE(text.find("paceline_checkpoint_restores_total{from=\"memory\"} 2\n"),
            std::string::npos);
  EXPECT_TRUE(text.ends_with("# EOF\n"));
}

TEST(Metrics, AnOperatorGetsThoseOfTheJobWithTheSameValues) {
  MetricSource source{.status = {.phase = "running", .step = 12}};
  source.status.restart_count = 2;
  source.goodput.slot_seconds[static_cast<size_t>(core::TimeClass::kHang)] = 3;
  const std::string text = MetricsText(source);
  const std::vector<wire::Measure> measures = MeasuresOf(source);
  const auto has = [&](const wire::Measure& one) {
    return std::count(measures.begin(), measures.end(), one) == 1;
  };
  EXPECT_TRUE(has({"phase", "running", 1}));
  EXPECT_TRUE(has({"phase", "waiting", 0}));
  EXPECT_TRUE(has({"step", "", 12}));
  EXPECT_TRUE(has({"restarts", "", 2}));
  EXPECT_TRUE(has({"rank_seconds", "hang", 3}));
  for (const wire::Measure& one : measures) {
    EXPECT_NE(text.find("paceline_" + one.name), std::string::npos) << one.name;
    EXPECT_FALSE(one.name.starts_with("slow_rank_") || one.name == "slow_rank") << one.name;
    EXPECT_NE(one.name, "heartbeats") << "the master's own work";
  }
}

TEST(Metrics, AreFewAndWellNamed) {
  size_t series = 0;
  std::set<std::string_view> names;
  for (const MetricRow& row : MetricTable()) {
    series += LabelValues(row).size();
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(row.label.empty(), row.values.empty()) << row.name;
    EXPECT_FALSE(row.name.ends_with("_total")) << row.name << ": the type adds it";
    EXPECT_FALSE(row.help.ends_with(".")) << row.name;
    EXPECT_EQ(row.help.find('|'), std::string_view::npos) << row.name;
  }
  EXPECT_LE(series, kSeriesMax);
}

TEST(Metrics, DivideTheTimeAsGoodputDoes) {
  MetricSource source;
  for (size_t i = 0; i < core::kTimeClasses; ++i) {
    source.goodput.slot_seconds[i] = static_cast<double>(i) + 1;
  }
  const std::string text = MetricsText(source);
  for (const core::TimeClassText& one : core::TimeClassTexts()) {
    const std::string line = Concat("paceline_rank_seconds{class=\"", one.name, "\"} ",
                                    static_cast<size_t>(one.time_class) + 1, "\n");
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(Metrics, GiveSlowRanksAPlaceAndNotALabel) {
  MetricSource source;
  source.status.slow = {{.ranks = {40, 41}, .excess = 0.5}, {.ranks = {7}, .excess = 0.25}};
  const std::string text = MetricsText(source);
  for (const char* line :
       {"paceline_slow_rank{slot=\"1\"} 40\n", "paceline_slow_rank{slot=\"2\"} 41\n",
        "paceline_slow_rank{slot=\"3\"} 7\n", "paceline_slow_rank{slot=\"4\"} -1\n",
        "paceline_slow_rank_excess_ratio{slot=\"3\"} 0.25\n",
        "paceline_slow_rank_excess_ratio{slot=\"8\"} 0\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace paceline::master
