#include "paceline/cli/show/node_note.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

TEST(NodeNote, NamesTheRanksThatAreNamedForAHang) {
  wire::NodeStatus node{.name = "node0", .reason = "joined"};
  for (const uint32_t rank : {0U, 1U, 2U}) node.ranks.push_back({.rank = rank});
  wire::JobStatus status{.master_pid = 7};
  EXPECT_EQ(NodeNote(node, status), "joined");
  status.hang =
      wire::HangStatus{.seq = 4, .ranks = {1, 9}, .sentence = "Ranks 1 and 9 do not go on."};
  EXPECT_EQ(NodeNote(node, status), "rank 1: suspected hang");
  status.hang->ranks = {1, 2};
  EXPECT_EQ(NodeNote(node, status), "ranks 1-2: suspected hang");
  node.ranks[0].exit = "exit code 1";
  EXPECT_EQ(NodeNote(node, status), "rank 0: exit code 1");
}

}  // namespace
}  // namespace paceline::cli
