#include "paceline/cli/drill/live_target.h"

#include "gtest/gtest.h"

namespace paceline::cli {
namespace {

wire::NodeStatus LiveNode(const std::string& name, uint32_t first_rank, int32_t agent_pid) {
  wire::NodeStatus node;
  node.name = name;
  node.state = "seated";
  node.agent_pid = agent_pid;
  for (uint32_t local = 0; local < 2; ++local) {
    wire::RankStatus rank;
    rank.rank = first_rank + local;
    rank.local_rank = local;
    rank.pid = agent_pid + 1 + static_cast<int32_t>(local);
    rank.generation = 3;
    rank.state = "stepping";
    node.ranks.push_back(rank);
  }
  return node;
}

// Nodes a and b are on this host, c is on another one.
wire::JobStatus LiveStatus() {
  wire::JobStatus status;
  status.phase = "running";
  status.generation = 3;
  status.nodes = {LiveNode("a", 0, 100), LiveNode("b", 2, 200), LiveNode("c", 4, 300)};
  return status;
}
const std::set<std::string> kHere = {"a", "b"};

TEST(LiveTargetTest, TheHighestRankOfThisHostIsStruck) {
  const auto target = ChooseTarget(LiveStatus(), kHere, *FindLiveKind("sigkill"), {});
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->node, "b");
  EXPECT_EQ(target->rank, 3u);
  EXPECT_EQ(target->rank_pids, std::vector<int32_t>{202});
  EXPECT_EQ(TargetText(*target, DrillLoss::kRank), "rank 3 on b (process 202)");
}

TEST(LiveTargetTest, ARankAndANodeMayBeNamed) {
  const LiveKind& kind = *FindLiveKind("sigstop");
  const auto rank = ChooseTarget(LiveStatus(), kHere, kind, {.rank = 1, .node = ""});
  ASSERT_TRUE(rank.ok());
  EXPECT_EQ(rank->rank_pids, std::vector<int32_t>{102});
  const auto node = ChooseTarget(LiveStatus(), kHere, kind, {.rank = {}, .node = "a"});
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(node->rank, 1u);
  EXPECT_FALSE(ChooseTarget(LiveStatus(), kHere, kind, {.rank = 1, .node = "b"}).ok());
}

TEST(LiveTargetTest, ANodeHasItsAgentAndAllItsRanks) {
  const auto target = ChooseTarget(LiveStatus(), kHere, *FindLiveKind("node_kill"), {});
  ASSERT_TRUE(target.ok());
  EXPECT_FALSE(target->rank.has_value());
  EXPECT_EQ(target->rank_pids, (std::vector<int32_t>{201, 202}));
  EXPECT_EQ(TargetText(*target, DrillLoss::kNode), "b: its agent (process 200) and 2 ranks");
  const auto agent = ChooseTarget(LiveStatus(), kHere, *FindLiveKind("agent_kill"), {});
  ASSERT_TRUE(agent.ok());
  EXPECT_TRUE(agent->rank_pids.empty());
  EXPECT_EQ(TargetText(*agent, DrillLoss::kAgent), "b: its agent (process 200)");
}

TEST(LiveTargetTest, RanksOfOtherHostsAndOfOlderWorldsAreNotStruck) {
  const LiveKind& kind = *FindLiveKind("sigkill");
  const auto away = ChooseTarget(LiveStatus(), kHere, kind, {.rank = 4, .node = ""});
  ASSERT_FALSE(away.ok());
  EXPECT_EQ(away.problem().code, "PL-E169");
  EXPECT_EQ(away.problem().what, "no rank 4 lives on this host");
  wire::JobStatus older = LiveStatus();
  older.generation = 4;
  EXPECT_FALSE(ChooseTarget(older, kHere, kind, {}).ok());
}

TEST(LiveTargetTest, AJobThatHasFinishedIsSaidToHave) {
  wire::JobStatus over = LiveStatus();
  over.phase = "finished";
  over.final_reason = "all ranks ended";
  for (wire::NodeStatus& node : over.nodes) node.ranks.clear();
  const auto target = ChooseTarget(over, kHere, *FindLiveKind("sigkill"), {});
  ASSERT_FALSE(target.ok());
  EXPECT_EQ(target.problem().what, "the job has finished");
}

TEST(LiveTargetTest, OnlyKindsThatAreSignalsStrikeALiveJob) {
  EXPECT_EQ(FindLiveKind("wrong_shape"), nullptr);
  EXPECT_EQ(LiveKindNames(), "sigkill, sigstop, agent_kill, node_kill");
  for (const DrillKind& kind : DrillKinds()) {
    const LiveKind* live = FindLiveKind(kind.name);
    if (live == nullptr) continue;
    EXPECT_EQ(live->loss == DrillLoss::kNode, kind.IsOfNodes()) << kind.name;
    EXPECT_EQ(live->loss == DrillLoss::kAgent, kind.strike == Strike::kAgent) << kind.name;
  }
}

}  // namespace
}  // namespace paceline::cli
