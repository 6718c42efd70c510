#include "paceline/cli/run/request.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>

#include "paceline/base/file_text.h"
#include "paceline/base/test_dir.h"
#include "paceline/cli/flags/torchrun_flags.h"

namespace paceline::cli {
namespace {

Result<RunRequest> Ask(std::vector<std::string> args, Environment environment = {},
                       HostFacts facts = {.cpu_count = 6, .host_name = "h", .cwd = "/w"}) {
  args.insert(args.end(), {"--no-python", "/bin/true", "x"});
  environment.emplace("PATH", "/usr/bin:/bin");
  auto line = ParseRunLine(args);
  if (!line.ok()) return line.problem();
  auto settings = LoadSettings({.environment = environment, .line = &*line});
  if (!settings.ok()) return settings.problem();
  return MakeRunRequest(*line, *settings, environment, facts);
}

TEST(RunRequest, PlainIsOneLocalNode) {
  const auto request = Ask({});
  ASSERT_TRUE(request.ok()) << request.problem().what;
  EXPECT_EQ(request->spec.nodes_min, 1u);
  EXPECT_EQ(request->spec.nodes_max, 1u);
  EXPECT_EQ(request->spec.nproc_per_node, 1u);
  EXPECT_FALSE(request->endpoint.has_value());
  EXPECT_FALSE(request->spec.max_restarts.has_value());
  EXPECT_EQ(request->launch.entry, EntryKind::kExec);
  EXPECT_EQ(request->launch.args, std::vector<std::string>{"x"});
  EXPECT_EQ(request->spec.timers, Timers{});
  EXPECT_EQ(request->spec.budgets, Budgets{});
}

TEST(RunRequest, AnEmptyWordIsNoScript) {
  const Environment environment = {{"PATH", "/usr/bin:/bin"}};
  auto line = ParseRunLine({"--nproc-per-node", "2", ""});
  ASSERT_TRUE(line.ok());
  auto settings = LoadSettings({.environment = environment, .line = &*line});
  ASSERT_TRUE(settings.ok());
  const auto request = MakeRunRequest(*line, *settings, environment, {.cwd = "/w"});
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.problem().code, "PL-E007");
}

TEST(RunRequest, LimitsOfMemory) {
  const auto ask = [](const std::string& node, const std::string& most) {
    Environment environment;
    if (!node.empty()) environment["PACELINE_MEMORY_NODE"] = node;
    if (!most.empty()) environment["PACELINE_MEMORY_MOST"] = most;
    return Ask({}, environment);
  };
  const auto request = ask("8GiB", "16GiB");
  ASSERT_TRUE(request.ok()) << request.problem().what;
  EXPECT_EQ(request->spec.memory_node, uint64_t{8} << 30);
  EXPECT_EQ(request->spec.memory_most, uint64_t{16} << 30);
  EXPECT_EQ(ask("8GiB", "")->spec.memory_most, 0u);
  EXPECT_EQ(ask("1.5GB", "")->spec.memory_node, uint64_t{1430} << 20);
  for (const auto& [node, most] : {std::pair("16GiB", "8GiB"), std::pair("", "8GiB"),
                                   std::pair("1KiB", ""), std::pair("0MiB", "")}) {
    const auto refused = ask(node, most);
    ASSERT_FALSE(refused.ok()) << node << " " << most;
    EXPECT_EQ(refused.problem().code, "PL-E013");
    EXPECT_NE(refused.problem().what.find("memory."), std::string::npos);
  }
}

TEST(RunRequest, LocalNodesAndSpares) {
  const auto request = Ask({"--local-nodes", "3", "--spares", "1", "--nproc-per-node", "cpu"});
  ASSERT_TRUE(request.ok()) << request.problem().what;
  EXPECT_EQ(request->spec.nodes_min, 3u);
  EXPECT_EQ(request->spec.nodes_max, 3u);
  EXPECT_EQ(request->local_nodes, 3u);
  EXPECT_EQ(request->local_spares, 1u);
  EXPECT_EQ(request->spec.nproc_per_node, 6u);
  const auto elastic = Ask({"--local-nodes", "3", "--nnodes", "2:3"});
  ASSERT_TRUE(elastic.ok());
  EXPECT_EQ(elastic->spec.nodes_min, 2u);
}

TEST(RunRequest, Rendezvous) {
  const auto c10d = Ask({"--nnodes=2:4", "--rdzv-endpoint=host0", "--rdzv-id=a b",
                         "--rdzv-conf=last_call_timeout=1,timeout=9", "--rdzv-backend=c10d"});
  ASSERT_TRUE(c10d.ok()) << c10d.problem().what;
  EXPECT_EQ(c10d->endpoint, (Endpoint{"host0", 29400}));
  EXPECT_FALSE(c10d->is_master_host.has_value());
  EXPECT_EQ(c10d->spec.timers.join_window, Duration::Seconds(1));
  EXPECT_EQ(c10d->launch.run_id, "a b");
  EXPECT_EQ(c10d->spec.name, "a-b");
  EXPECT_EQ(c10d->notes.size(), 2u);
  const auto fixed = Ask({"--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1"});
  ASSERT_TRUE(fixed.ok());
  EXPECT_EQ(fixed->endpoint, (Endpoint{"10.0.0.1", 29500}));
  EXPECT_EQ(fixed->is_master_host, false);
  EXPECT_EQ(fixed->node_name, "node1");
}

TEST(RunRequest, Refusals) {
  EXPECT_EQ(Ask({"--nnodes", "3:2"}).problem().code, "PL-E003");
  EXPECT_EQ(Ask({"--nproc-per-node", "gpu"}).problem().code, "PL-E003");
  EXPECT_EQ(Ask({"--standalone", "--nnodes", "2"}).problem().code, "PL-E005");
  EXPECT_EQ(Ask({"--tls", "--insecure"}).problem().code, "PL-E005");
  EXPECT_EQ(Ask({"--module"}).problem().code, "PL-E005");
  EXPECT_EQ(Ask({"--node-name", ".x"}).problem().code, "PL-E003");
  EXPECT_EQ(Ask({"--rdzv-endpoint", "h:99999"}).problem().code, "PL-E043");
  EXPECT_EQ(Ask({"-r", "4"}).problem().code, "PL-E003");
  EXPECT_EQ(Ask({}, {{"PACELINE_TIMERS_LOST_AFTER", "300ms"}}).problem().code, "PL-E013");
}

// Each of these was taken, and had no effect or another one.
TEST(RunRequest, AValueThatNothingCanUseIsRefused) {
  const std::vector<std::string> bad[] = {{"--local-ranks-filter", "7"},
                                          {"--nproc-per-node", "2", "--local-ranks-filter", "0,2"},
                                          {"--redirects", "5:1"},
                                          {"--tee", "0:3,1:2"},
                                          {"--rdzv-conf", "a=b,c"},
                                          {"--rdzv-conf", "is_host=maybe"},
                                          {"--rdzv-conf", "last_call_timeout=soon"},
                                          {"--nnodes=2", "--node-rank=2", "--master-addr=10.0.0.1"},
                                          {"--nnodes=2", "--node-rank=0", "--master-addr="},
                                          {"--preload", "my module"},
                                          {"--preload", "torch,"},
                                          {"--run-dir", ""},
                                          {"--incarnation", "99999999999"}};
  for (const auto& words : bad) {
    const auto request = Ask(words);
    ASSERT_FALSE(request.ok()) << words[0] << " " << words[1];
    EXPECT_EQ(request.problem().code, "PL-E003") << words[0];
    EXPECT_NE(request.problem().fix, "");
  }
  EXPECT_EQ(Ask({"--relays", "nope"}).problem().code, "PL-E005");
  EXPECT_TRUE(Ask({}, {{"PACELINE_NETWORK_RELAYS", "nope"}})->relays.empty());
  EXPECT_EQ(Ask({"--join", "paceline-join:v1:h"}).problem().code, "PL-E005");
  EXPECT_EQ(Ask({"--relays", "nope:x", "--rdzv-endpoint", "h"}).problem().where, "--relays");
  EXPECT_TRUE(Ask({"--relays", "r", "--rdzv-endpoint", "h", "--nnodes", "2"}).ok());
  const auto good = Ask({"--nproc-per-node", "2", "--local-ranks-filter", "1", "--tee", "1:3",
                         "--preload", "torch.nn,numpy", "--rdzv-conf", "is_host=T"});
  ASSERT_TRUE(good.ok()) << good.problem().what;
  EXPECT_FALSE(good->is_master_host.has_value());
}

TEST(RunRequest, StopsAndSignals) {
  const auto request = Ask({"--shutdown-timeout", "7", "--signals-to-handle", "SIGUSR1"});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->spec.timers.stop_grace, Duration::Seconds(7));
  EXPECT_EQ(request->stop_signals, (std::vector<int>{SIGINT, SIGTERM, SIGUSR1}));
  const auto both = Ask({"--stop-grace", "2s", "--shutdown-timeout", "7"});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->spec.timers.stop_grace, Duration::Seconds(2));
}

TEST(RunRequest, FlagsWithoutEffectAreNamed) {
  const auto request = Ask({"--monitor-interval", "1", "--start-method", "fork"});
  ASSERT_TRUE(request.ok());
  ASSERT_EQ(request->notes.size(), 2u);
  EXPECT_NE(request->notes[0].find("--monitor-interval has no effect"), std::string::npos);
}

TEST(RunRequest, MissingScript) {
  auto line = ParseRunLine({"/nowhere/t.py"});
  ASSERT_TRUE(line.ok());
  const auto request = MakeRunRequest(*line, SettingValues(), {}, {.cwd = "/w"});
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.problem().code, "PL-E008");
}

TEST(RunRequest, AFolderIsAScriptOnlyWithAMain) {
  const TestDir dir;
  auto line = ParseRunLine({dir.path()});
  ASSERT_TRUE(line.ok());
  const auto refused = MakeRunRequest(*line, SettingValues(), {}, {.cwd = "/w"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.problem().code, "PL-E008");
  EXPECT_EQ(refused.problem().why, "it is a folder without a __main__.py");
  ASSERT_TRUE(ReplaceFile(dir.path() + "/__main__.py", "", 0600).ok());
  EXPECT_TRUE(Ask({dir.path()}).ok());
}

// It was removed: each rank would fail to start, with less to say about it.
TEST(RunRequest, WithoutACurrentDirectoryNothingIsStarted) {
  auto line = ParseRunLine({"/bin/sh"});
  ASSERT_TRUE(line.ok());
  const auto request = MakeRunRequest(*line, SettingValues(), {}, {.cwd = ""});
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.problem().where, "the current directory");
}

TEST(RunRequest, Streams) {
  EXPECT_EQ(ParseStreams("3")->For(7), Streams::kAll);
  EXPECT_EQ(ParseStreams("0:3,1:2")->For(1), Streams::kErr);
  EXPECT_EQ(ParseStreams("0:3,1:2")->For(2), Streams::kNone);
  for (const char* bad : {"", "4", "0:", ":1", "0:3,", "33", "0:9", "-1:1"}) {
    EXPECT_FALSE(ParseStreams(bad).has_value()) << bad;
  }
}

TEST(RunRequest, Endpoints) {
  EXPECT_EQ(*ParseEndpoint("[::1]:5", 1), (Endpoint{"::1", 5}));
  EXPECT_EQ(*ParseEndpoint("::1", 1), (Endpoint{"::1", 1}));
  EXPECT_EQ(*ParseEndpoint("h", 1), (Endpoint{"h", 1}));
  for (const char* bad : {"", ":1", "h:", "h:x", "[::1", "a b:1", "h:-1"}) {
    EXPECT_FALSE(ParseEndpoint(bad, 1).ok()) << bad;
  }
}

TEST(RunRequest, VisibleDevices) {
  EXPECT_EQ(VisibleDevices("0,1", 4), 2u);
  EXPECT_EQ(VisibleDevices("", 4), 0u);
  EXPECT_EQ(VisibleDevices("0,-1,2", 4), 1u);
  EXPECT_EQ(VisibleDevices("GPU-aa,GPU-bb", 4), 2u);
}

}  // namespace
}  // namespace paceline::cli
