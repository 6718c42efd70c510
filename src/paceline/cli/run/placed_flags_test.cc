#include "paceline/cli/run/placed_flags.h"

#include "gtest/gtest.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/flags/torchrun_flags.h"

namespace paceline::cli {
namespace {

// The operator's words of a pod, then those of spec.flags.
Check PlacedLine(std::vector<std::string> words, const std::vector<std::string>& flags) {
  words.insert(words.end(), flags.begin(), flags.end());
  words.push_back("train.py");
  const auto line = ParseRunLine(words);
  if (!line.ok()) return line.problem();
  return CheckPlacedFlags(*line);
}

const std::vector<std::string> kPlacedMaster = {
    "--credentials",    "/c", "--rdzv-endpoint", "0.0.0.0:29400",
    "--local-nodes",    "0",  "--nnodes",        "6:8",
    "--spares",         "1",  "--name",          "train",
    "--nproc-per-node", "4",  "--run-dir",       "/tmp/run"};
const std::vector<std::string> kPlacedNode = {
    "--credentials", "/c", "--rdzv-endpoint",  "train:29400", "--node-name", "node3",
    "--incarnation", "2",  "--nproc-per-node", "4",           "--run-dir",   "/tmp/run"};

TEST(CheckPlacedFlags, RefusesEachFlagOfTheOperatorInAllSpellings) {
  for (const char* text :
       {"--nnodes 9", "--nnodes=9", "--nnod 9", "--spares 3", "--name x", "--nproc-per-node 2",
        "--nproc_per_node 2", "--nproc 2", "--run-dir /x", "--node-name hack", "--incarnation 7",
        "--credentials /x", "--rdzv-endpoint a:1", "--rdzv_endpoint a:1", "--rdzv-e a:1",
        "--local-nodes 1"}) {
    const Check problem = PlacedLine(kPlacedMaster, Split(text, ' '));
    ASSERT_TRUE(problem.has_value()) << text;
    EXPECT_NE(problem->where.find("spec.flags"), std::string::npos) << text << problem->what;
    EXPECT_FALSE(problem->why.empty() || problem->fix.empty()) << text;
  }
  for (const char* text :
       {"--node-name hack", "--incarnation 7", "--run-dir /x", "--credentials=/x"}) {
    EXPECT_TRUE(PlacedLine(kPlacedNode, Split(text, ' ')).has_value()) << text;
  }
}

TEST(CheckPlacedFlags, TakesOtherFlagsAndLinesWithoutAnOperator) {
  for (const char* text : {"--ckpt-every 30s", "--max-restarts 3 --max-restarts 4"}) {
    EXPECT_FALSE(PlacedLine(kPlacedMaster, Split(text, ' ')).has_value()) << text;
    EXPECT_FALSE(PlacedLine(kPlacedNode, Split(text, ' ')).has_value()) << text;
  }
  EXPECT_FALSE(PlacedLine({"--nnodes", "2"}, {"--nnodes", "3"}).has_value());
}

}  // namespace
}  // namespace paceline::cli
