// Every message and journal record survives encoding and decoding, and malformed input is refused.

#include <limits>

#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/wire/codec/evidence_proto.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/journal_codec.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {
namespace {

// Draws random values for every field; text has random length and content.
class Draw {
 public:
  explicit Draw(uint64_t seed) : prng_(seed) {}

  uint32_t Small() { return static_cast<uint32_t>(prng_.Below(1000)); }
  uint64_t Big() { return prng_.Below(kGenerationMax); }
  bool Flag() { return prng_.Chance(1, 2); }
  int64_t Step() { return prng_.Between(-1, 1'000'000'000'000); }
  paceline::Duration Time() {
    return Flag() ? paceline::Duration::Infinite()
                  : paceline::Duration::Nanoseconds(prng_.Between(0, 1'000'000'000'000));
  }
  std::string Name() { return "node" + std::to_string(prng_.Below(10'000)); }
  std::string Text() {
    std::string text;
    for (uint64_t i = prng_.Below(40); i > 0; --i) text += Flag() ? "é" : "x\n";
    return text;
  }
  template <class E>
  E Enum(E last) {
    return static_cast<E>(prng_.Below(static_cast<uint64_t>(last) + 1));
  }

  ExitCause Cause() {
    return {.kind = Enum(ExitCause::Kind::kHung),
            .code = static_cast<int>(Small()) - 500,
            .cgroup_oom = Flag(),
            .memory_limit = Big(),
            .port_taken = Flag(),
            .asked = Flag(),
            .is_final = Flag(),
            .is_repeatable = Flag(),
            .fingerprint = Text(),
            .headline = Text(),
            .cause_class = Text(),
            .role = Enum(ExitCause::Role::kAdvice)};
  }
  RankReport Report() {
    RankReport rank{.generation = Generation(Big()),
                    .rank = Rank(Small()),
                    .local_rank = Small(),
                    .pid = static_cast<int32_t>(Small()),
                    .state = Enum(RankReport::State::kExited),
                    .step = Step(),
                    .step_count = prng_.Between(0, 1'000'000),
                    .steps_total = prng_.Between(0, 1'000'000),
                    .saved_step = Step()};
    rank.has_loss = Flag();
    rank.is_quiet = Flag();
    if (rank.is_quiet) rank.phase = Enum(RankPhase::kEnd);
    if (rank.has_loss) rank.loss = static_cast<double>(Small()) / 8;
    if (rank.state == RankReport::State::kExited) rank.exit = Cause();
    return rank;
  }
  std::vector<RankReport> Reports() {
    std::vector<RankReport> ranks(prng_.Below(4));
    for (RankReport& rank : ranks) rank = Report();
    return ranks;
  }
  JobSpec Spec() {
    JobSpec spec{.job_id = Name(),
                 .name = Text(),
                 .nodes_min = 1 + Small(),
                 .unit = 1 + Small(),
                 .nproc_per_node = 1 + Small(),
                 .spares = Small(),
                 .grow = Enum(GrowPolicy::kNever),
                 .replace_nodes = Flag(),
                 .is_placed = Flag(),
                 .only_tells_hangs = Flag(),
                 .hang_act_after = Time(),
                 .seed = prng_.Next()};
    spec.nodes_max = spec.nodes_min + Small();
    if (Flag()) spec.max_restarts = Small();
    spec.timers.lost_after = Time();
    spec.timers.orphan_after = Time();
    spec.timers.respawn_delay_max = Time();
    spec.budgets.solo_generations = Small();
    spec.budgets.unproven_connections_max = Small();
    return spec;
  }
  paceline::World World() {
    paceline::World world{.generation = Generation(Big()),
                          .store = {.host = "10.0.0.1", .port = Small()},
                          .restart_count = Small()};
    for (uint32_t i = 0; i < 3; ++i) world.seats.push_back({NodeId(Small()), i * 2, 2});
    return world;
  }
  paceline::Assignment Assignment() {
    return {.kind = Enum(paceline::Assignment::Kind::kLeave),
            .generation = Generation(Big()),
            .seat = Small(),
            .seat_count = Small(),
            .first_rank = Small(),
            .rank_count = Small(),
            .world_size = Small(),
            .restart_count = Small(),
            .store = {.host = "host-1.local", .port = Small()},
            .fresh_starter = Flag(),
            .solo_first = Generation(Big()),
            .solo_last = Generation(Big()),
            .grace = Time(),
            .exit_code = static_cast<int>(Small()),
            .is_over = Flag(),
            .reason = Text()};
  }
  NodeReport Node() {
    return {.name = Name(),
            .boot_id = Text(),
            .agent_incarnation = prng_.Next(),
            .agent_pid = static_cast<int32_t>(Small()),
            .address = "fe80::1%eth0",
            .host = Text(),
            .slots = Small(),
            .store_port = Small(),
            .version_major = Small(),
            .version_minor = Small(),
            .job_id = Name(),
            .generation = Generation(Big()),
            .ranks = Reports()};
  }
  core::HangJudged Hang(Generation generation) {
    return {generation, Text(), Flag(), Text(), {Rank(Small())}, {Text()}, Time(), Text(), Flag()};
  }
  core::PastRemembered Past() {
    return {{Small(),
             Small(),
             Small(),
             Text(),
             Text(),
             Step(),
             Step(),
             Big(),
             {{Small(), 3}},
             {Text(), Text()},
             11,
             Text(),
             Small()}};
  }
  std::vector<core::Fact> Facts() {
    const NodeId node(Small());
    const Generation generation(Big());
    const SavedStep saved{Big(), Step()};
    return {
        core::JobCreated{Spec()},
        core::MasterTookOver{prng_.Next(), 5, core::History::kNone},
        core::NodeJoined{node, Name(), Text(), Text(), Small(), Flag(), Small()},
        core::NodeLost{node, Name(), Time(), Flag(), Flag(), Text()},
        core::NodeLeft{node, Name(), Text()},
        core::NodeEvicted{node, Name(), Text(), Text()},
        core::NodeChecked{node, Name(), Flag(), Text(), Text()},
        core::RankFailed{node, Name(), generation, Rank(Small()), Step(), Step(), Flag(), Flag(),
                         Cause(), Time()},
        core::RecoveryDecided{Enum(core::Rung::kStop), node, Flag(), Name(), Step(), Step(),
                              Text()},
        core::WorldFormed{World(), generation, Flag(), node, Text()},
        core::WorldRunning{generation, Step(), 7, Flag(), Flag()},
        core::WorldEnded{generation, Step(), Text(), 40, 7, Duration::Seconds(3), Time(), Step()},
        core::SoloRestarted{node, Name(), generation, Text()},
        core::ProgressMade{Step(), Step()},
        core::GrowthPlanned{node, Name(), Step(), Text()},
        core::AgentReturned{node, Name(), Small()},
        core::WaitBegan{Text()},
        core::SizeChosen{Small(), Step(), Flag(), Text()},
        core::StopDecided{static_cast<int>(Small()), Time(), Text(), /*is_asked=*/true,
                          static_cast<int>(Small())},
        core::JobFinished{static_cast<int>(Small()), Text(), Small(), Step(), Step()},
        core::RestoreDecided{generation, Enum(RestoreOrder::From::kStorage), saved, Small(), Name(),
                             Text()},
        core::CheckpointCommitted{Name(), "/" + Name(), {Big(), Step()}, Big(), 7},
        core::CheckpointDamaged{Name(), node, Name()},
        core::CheckpointNotStored{{Big(), Step()}, "/" + Name(), Text(), Generation(Big()), true},
        core::JobResumed{Text(), Flag()},
        core::WishChanged{Name(), Small(), Text()},
        core::TasksPlaced{{}, Text()},
        core::TasksScaled{7, 5, Text()},
        core::TablesMoved{1, 2, {3, 4095}, Text()},
        core::NodeCheckOrdered{node, Name(), 2, Flag(), Text()},
        core::PairsJudged{4, 6, Time(), 0.5, {"n1"}, {{"n2", "n3", Text()}}, {}, {"n4"}},
        core::DrillStruck{node, Name(), generation, Flag(), Rank(7), Text(), DrillLoss::kNode},
        core::MemoryShort{node, Name(), generation, {5, 8}, 9, Time(), 0.5, Flag(), Step(), Text()},
        Past(),
        core::NodeNoticed{node, Name(), Instant() + Time(), Step(), Text()},
        Hang(generation),
        core::HangEnded{generation, Time()},
        core::TimeAccounted{generation, Small(), {1, 2, 3, 4, 5, 6, 7, 8, 9}, 10},
        core::RankSlow{generation, {{Rank(Small())}, Text(), Flag(), Flag(), 0.21, 0.17, 900}},
        core::RankNoLongerSlow{generation, {{Rank(Small()), Rank(Small())}, Text(), Flag()}},
        core::ModelDescribed{Text(), Big(), Big(), Text(), Text()},
        core::ParallelPlanChosen{generation, Text(), Text(), Text(), 0.25, Text(), Text()},
        core::LossWentBad{generation, Rank(Small()), {Small(), 7, BadLossKind::kLossSpike, 8, 2}},
    };
  }
  RankEvidence Looks() {
    RankEvidence rank{.rank = Rank(Small()),
                      .pid = static_cast<int32_t>(Small()),
                      .has_ring = Flag(),
                      .phase = Enum(RankPhase::kEnd),
                      .in_phase = Time(),
                      .quiet_for = Time(),
                      .step_p99 = Time(),
                      .phase_longest = Time(),
                      .state = Flag() ? 'T' : '?',
                      .stopped_by = static_cast<int>(Small()),
                      .stopped_child = static_cast<int32_t>(Small()),
                      .watched = Time(),
                      .cpu = Time(),
                      .moved = Flag(),
                      .idle_for = Time(),
                      .is_pressed = Flag(),
                      .waits_in = Text(),
                      .no_stack = Text(),
                      .raised = Text(),
                      .raised_as = Text(),
                      .raised_for = Time(),
                      .raised_is_final = Flag()};
    for (uint64_t i = prng_.Below(5); i > 0; --i) {
      rank.collectives.push_back({Text(), Big(), Text(), Text(), Big(), Text(), Time(), Flag()});
      rank.stack.push_back({Text(), Small(), Text()});
    }
    return rank;
  }
  NodeEvidence Evidence() {
    std::vector<RankEvidence> ranks(prng_.Below(4));
    for (RankEvidence& rank : ranks) rank = Looks();
    return {.generation = Generation(Big()), .round = Big(), .ranks = std::move(ranks)};
  }
  std::string Bytes(size_t count_max) {
    std::string bytes(prng_.Below(count_max), '\0');
    for (char& byte : bytes) byte = static_cast<char>(prng_.Below(256));
    return bytes;
  }
  // Flips, drops, repeats or inserts a few bytes.
  std::string Mutate(std::string bytes) {
    for (uint64_t i = 1 + prng_.Below(6); i > 0 && !bytes.empty(); --i) {
      const size_t at = prng_.Below(bytes.size());
      switch (prng_.Below(4)) {
        case 0: bytes[at] = static_cast<char>(prng_.Below(256)); break;
        case 1: bytes.erase(at, 1 + prng_.Below(8)); break;
        case 2: bytes.insert(at, bytes.substr(at, 16)); break;
        default: bytes.insert(at, 1, '\xff');
      }
    }
    return bytes;
  }

 private:
  Prng prng_;
};

TEST(Codec, FactsSurvive) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::vector<core::Fact> facts = Draw(seed).Facts();
    ASSERT_EQ(facts.size(), std::variant_size_v<core::Fact>) << "a new kind needs a line here";
    for (const core::Fact& fact : facts) {
      const std::string bytes = EncodeFact(fact);
      const absl::StatusOr<core::Fact> decoded = DecodeFact(bytes);
      ASSERT_TRUE(decoded.ok()) << decoded.status() << " for kind " << fact.index();
      // Encoding the same fact gives the same bytes, so neither its kind nor a field was lost.
      ASSERT_EQ(EncodeFact(*decoded), bytes) << fact.index();
    }
  }
}

TEST(Codec, ValuesOfFactsSurvive) {
  Draw draw(7);
  const core::WorldFormed formed{draw.World(), Generation(9), true, NodeId(4), "because"};
  const auto world = DecodeFact(EncodeFact(formed));
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(std::get<core::WorldFormed>(*world).world, formed.world);
  EXPECT_EQ(std::get<core::WorldFormed>(*world).solo_last, Generation(9));
  const core::RankFailed failed{.node = NodeId(3),
                                .node_name = "n",
                                .generation = Generation(2),
                                .rank = Rank(5),
                                .step = 77,
                                .step_count = 78,
                                .charged = false,
                                .explains = true,
                                .cause = draw.Cause()};
  const auto rank = DecodeFact(EncodeFact(failed));
  ASSERT_TRUE(rank.ok()) << rank.status();
  EXPECT_EQ(std::get<core::RankFailed>(*rank).cause, failed.cause);
  EXPECT_EQ(std::get<core::RankFailed>(*rank).step, 77);
  EXPECT_FALSE(std::get<core::RankFailed>(*rank).charged);
  const JobSpec spec = draw.Spec();
  const auto job = DecodeFact(EncodeFact(core::JobCreated{spec}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(std::get<core::JobCreated>(*job).spec, spec);
}

TEST(Codec, StreamMessagesSurvive) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Draw draw(seed);
    const NodeReport report = draw.Node();
    pb::AgentMessage message;
    const CopyOffer copy{3, draw.Small() + 1U, {"node1", "node4"}};
    ToProto(Register{report, copy}, &message);
    const auto agent = FromProto(message);
    ASSERT_TRUE(agent.ok()) << agent.status();
    EXPECT_EQ(std::get<Register>(*agent).report, report);
    EXPECT_EQ(std::get<Register>(*agent).copy, copy);

    Heartbeat heartbeat{Generation(draw.Big()), draw.Small(), draw.Time(), draw.Reports()};
    const StepSums sums{draw.Big(), draw.Time(), draw.Time(), draw.Time(), draw.Time(), true};
    heartbeat.samples = {{Generation(draw.Big()), Rank(draw.Small()), sums, true}};
    message.Clear();
    ToProto(heartbeat, &message);
    const auto beat = FromProto(message);
    ASSERT_TRUE(beat.ok()) << beat.status();
    EXPECT_EQ(std::get<Heartbeat>(*beat).ranks, heartbeat.ranks);
    EXPECT_EQ(std::get<Heartbeat>(*beat).loop_delay, heartbeat.loop_delay);
    EXPECT_EQ(std::get<Heartbeat>(*beat).samples, heartbeat.samples);

    const Assignment assignment = draw.Assignment();
    pb::MasterMessage answer;
    ToProto(assignment, &answer);
    const auto told = FromProto(answer);
    ASSERT_TRUE(told.ok()) << told.status();
    EXPECT_EQ(std::get<Assignment>(*told), assignment);

    const NodeEvidence evidence = draw.Evidence();
    message.Clear();
    ToProto(evidence, &message);
    const auto found = FromProto(message);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(std::get<NodeEvidence>(*found), evidence);
    const EvidenceOrder asked{Generation(draw.Big()), draw.Big()};
    answer.Clear();
    ToProto(asked, &answer);
    const auto order = FromProto(answer);
    ASSERT_TRUE(order.ok()) << order.status();
    EXPECT_EQ(std::get<EvidenceOrder>(*order).generation, asked.generation);
    EXPECT_EQ(std::get<EvidenceOrder>(*order).round, asked.round);

    Welcome welcome{NodeId(draw.Small()), draw.Spec(), draw.Time()};
    welcome.term = 9;
    answer.Clear();
    ToProto(welcome, &answer);
    const auto welcomed = FromProto(answer);
    ASSERT_TRUE(welcomed.ok()) << welcomed.status();
    EXPECT_EQ(std::get<Welcome>(*welcomed).spec, welcome.spec);
    EXPECT_EQ(std::get<Welcome>(*welcomed).term, 9U);
  }
}

TEST(Codec, StacksSurvive) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const NodeEvidence evidence = Draw(seed).Evidence();
    const JobStacks stacks{.nodes = {{.node = "n", .ranks = evidence.ranks}}, .silent = {"m"}};
    pb::JobStacks encoded;
    ToProto(stacks, &encoded);
    JobStacks heard;
    ASSERT_TRUE(FromProto(encoded, &heard).ok());
    EXPECT_EQ(heard, stacks);
  }
}

TEST(Codec, MissingTimersHaveTheirDefaults) {
  pb::JobSpec message;
  message.set_job_id("job");
  JobSpec spec;
  ASSERT_TRUE(FromProto(message, &spec).ok());
  EXPECT_EQ(spec.timers, Timers());
  EXPECT_EQ(spec.budgets, Budgets());
}

TEST(Codec, WhatARankPrintedCannotBreakAStream) {
  ExitCause cause;
  cause.headline = std::string("bad \xff\xfe byte ") + std::string(100'000, 'x');
  pb::ExitCause message;
  ToProto(cause, &message);
  EXPECT_LE(message.headline().size(), kTextBytesMax);
  EXPECT_TRUE(message.headline().starts_with("bad ?? byte x"));
  pb::ExitCause parsed;
  EXPECT_TRUE(parsed.ParseFromString(message.SerializeAsString()));
}

TEST(Codec, HostileNodesAreRefused) {
  const auto refused = [](auto change) {
    pb::AgentMessage message;
    Draw draw(3);
    ToProto(Register{draw.Node()}, &message);
    change(message.mutable_register_());
    return !FromProto(message).ok();
  };
  EXPECT_FALSE(refused([](pb::NodeReport*) {}));
  for (const char* name : {"", ".", "..", "../etc", "a/b", "a b", "a\nb", ".hidden"}) {
    EXPECT_TRUE(refused([&](pb::NodeReport* node) { node->set_name(name); })) << name;
  }
  EXPECT_TRUE(refused([](pb::NodeReport* node) { node->set_name(std::string(129, 'a')); }));
  EXPECT_TRUE(refused([](pb::NodeReport* node) { node->set_job_id("../etc"); }));
  EXPECT_FALSE(refused([](pb::NodeReport* node) { node->clear_job_id(); })) << "an older release";
  EXPECT_TRUE(refused([](pb::NodeReport* node) { node->set_address("a;rm -rf"); }));
  EXPECT_TRUE(refused([](pb::NodeReport* node) { node->set_store_port(65536); }));
  EXPECT_TRUE(refused([](pb::NodeReport* node) { node->set_agent_pid(-1); }));
  EXPECT_TRUE(refused(
      [](pb::NodeReport* node) { node->set_generation(std::numeric_limits<uint64_t>::max()); }));
  EXPECT_TRUE(refused([](pb::NodeReport* node) {
    for (int i = 0; i <= kRanksPerMessageMax; ++i) {
      node->add_ranks()->set_state(pb::RankReport::RUNNING);
    }
  }));
  EXPECT_TRUE(refused([](pb::NodeReport* node) {
    node->add_ranks()->set_state(static_cast<pb::RankReport::State>(77));
  }));
}

// Decodes random bytes and mutations of the valid messages. An accepted value must survive the
// next encoding and decoding. Returns how many were accepted.
template <class Message>
size_t Fuzz(uint64_t seed, const std::vector<Message>& valid) {
  const google::protobuf::LogSilencer silencer;
  Draw draw(seed);
  size_t accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    Message message;
    const std::string bytes =
        i % 4 == 0 ? draw.Bytes(300) : draw.Mutate(valid[i % valid.size()].SerializeAsString());
    if (!message.ParseFromString(bytes)) continue;
    const auto decoded = FromProto(message);
    if (!decoded.ok()) continue;
    ++accepted;
    Message encoded;
    ToProto(*decoded, &encoded);
    const auto again = FromProto(encoded);
    if (!again.ok()) {
      ADD_FAILURE() << again.status() << " for " << encoded.DebugString();
      continue;
    }
    Message repeated;
    ToProto(*again, &repeated);
    EXPECT_EQ(repeated.DebugString(), encoded.DebugString()) << message.DebugString();
  }
  return accepted;
}

TEST(Codec, FuzzAgentMessages) {
  size_t accepted = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Draw draw(seed);
    std::vector<pb::AgentMessage> valid(3);
    ToProto(Register{draw.Node()}, &valid[0]);
    ToProto(Heartbeat{Generation(draw.Big()), draw.Small(), draw.Time(), draw.Reports()},
            &valid[1]);
    ToProto(draw.Evidence(), &valid[2]);
    accepted += Fuzz(seed, valid);
  }
  EXPECT_GT(accepted, 100U);  // most mutations are refused
}

TEST(Codec, FuzzMasterMessages) {
  size_t accepted = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Draw draw(seed);
    std::vector<pb::MasterMessage> valid(2);
    ToProto(draw.Assignment(), &valid[0]);
    ToProto(Welcome{NodeId(draw.Small()), draw.Spec(), draw.Time()}, &valid[1]);
    accepted += Fuzz(seed, valid);
  }
  EXPECT_GT(accepted, 100U);  // most mutations are refused
}

TEST(Codec, FuzzFacts) {
  size_t accepted = 0;
  const google::protobuf::LogSilencer silencer;
  Draw draw(11);
  for (const core::Fact& fact : draw.Facts()) {
    const std::string valid = EncodeFact(fact);
    for (int i = 0; i < 500; ++i) {
      const auto decoded = DecodeFact(i % 4 == 0 ? draw.Bytes(300) : draw.Mutate(valid));
      if (!decoded.ok()) continue;
      ++accepted;
      const std::string encoded = EncodeFact(*decoded);
      const auto again = DecodeFact(encoded);
      ASSERT_TRUE(again.ok()) << again.status() << " for kind " << decoded->index();
      EXPECT_EQ(EncodeFact(*again), encoded) << "kind " << decoded->index();
    }
  }
  EXPECT_GT(accepted, 100U);  // most mutations are refused
}

}  // namespace
}  // namespace paceline::wire
