#include "paceline/sim/network.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::sim {
namespace {

class NetworkTest : public testing::Test {
 protected:
  ConnectionId Open() {
    return network_.Open({.agent_host = 1,
                          .agent_incarnation = 1,
                          .agent_eof = [this](ConnectionId) { seen_.push_back("agent eof"); },
                          .master_eof = [this](ConnectionId) { seen_.push_back("master eof"); }});
  }
  void Say(ConnectionId id, End to, const std::string& text) {
    network_.Send(id, to, [this, text] { seen_.push_back(text); });
  }
  void RunFor(Duration time) {
    const Instant until = queue_.now() + time;
    queue_.At(until, [] {});
    while (!queue_.empty() && queue_.next_at() <= until) queue_.RunNext();
  }

  EventQueue queue_;
  Network network_{queue_, Prng(1), LinkQuality{}};
  std::vector<std::string> seen_;
};

TEST_F(NetworkTest, KeepsTheOrderOfAStream) {
  const ConnectionId id = Open();
  for (int i = 0; i < 5; ++i) Say(id, End::kMaster, std::to_string(i));
  RunFor(Duration::Seconds(1));
  EXPECT_EQ(seen_, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
}

TEST_F(NetworkTest, TellsTheEndBehindWhatWasSaid) {
  const ConnectionId id = Open();
  Say(id, End::kMaster, "last words");
  network_.Close(id, End::kAgent);
  RunFor(Duration::Seconds(1));
  EXPECT_EQ(seen_, (std::vector<std::string>{"last words", "master eof"}));
}

TEST_F(NetworkTest, HoldsMessagesWhileAPathIsCut) {
  const ConnectionId id = Open();
  network_.Cut(1, kMasterHost);
  Say(id, End::kMaster, "late");
  Say(id, End::kAgent, "other way");
  RunFor(Duration::Milliseconds(100));
  EXPECT_EQ(seen_, (std::vector<std::string>{"other way"}));
  network_.Mend(1, kMasterHost);
  RunFor(Duration::Milliseconds(100));
  EXPECT_EQ(seen_, (std::vector<std::string>{"other way", "late"}));
}

TEST_F(NetworkTest, KeepsTheOrderOverACutThatEndsBeforeALaterMessageArrives) {
  const ConnectionId id = Open();
  Say(id, End::kMaster, "caught");
  LinkQuality slow;
  slow.latency_min = slow.latency_max = Duration::Milliseconds(50);
  network_.SetLink(1, slow);
  Say(id, End::kMaster, "behind");
  network_.Cut(1, kMasterHost);
  RunFor(Duration::Milliseconds(10));
  network_.Mend(1, kMasterHost);  // "caught" is sent again, and "behind" is still in flight
  Say(id, End::kMaster, "last");
  RunFor(Duration::Seconds(1));
  EXPECT_EQ(seen_, (std::vector<std::string>{"caught", "behind", "last"}));
}

TEST_F(NetworkTest, KeepsTheOrderOverACutThatCatchesAMessageOnItsWay) {
  const ConnectionId id = Open();
  Say(id, End::kMaster, "first");
  network_.Cut(1, kMasterHost);
  Say(id, End::kMaster, "second");
  RunFor(Duration::Milliseconds(100));
  EXPECT_TRUE(seen_.empty());
  network_.Mend(1, kMasterHost);
  RunFor(Duration::Milliseconds(100));
  EXPECT_EQ(seen_, (std::vector<std::string>{"first", "second"}));
}

// One end may break during a cut while the other end notices nothing. A sender to the lost end must
// be told.
TEST(Network, NoEndBelievesForEverInAConnectionThatTheOtherLost) {
  uint64_t half_open = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    EventQueue queue;
    Network network(queue, Prng(seed), LinkQuality{});
    uint64_t ends = 0;
    const auto eof = [&ends](ConnectionId) { ++ends; };
    const ConnectionId id = network.Open(
        {.agent_host = 1, .agent_incarnation = 1, .agent_eof = eof, .master_eof = eof});
    const auto run_until = [&queue](int64_t seconds) {
      const Instant until = Instant() + Duration::Seconds(seconds);
      queue.At(until, [] {});
      while (!queue.empty() && queue.next_at() <= until) queue.RunNext();
    };
    for (const int64_t begin : {0, 10}) {
      run_until(begin);
      network.Cut(1, kMasterHost);
      network.Cut(kMasterHost, 1);
      run_until(begin + 5);
      network.Mend(1, kMasterHost);
      network.Mend(kMasterHost, 1);
    }
    run_until(60);
    half_open += ends == 1 ? 1 : 0;
    network.Send(id, End::kMaster, [] {});
    network.Send(id, End::kAgent, [] {});
    run_until(61);
    EXPECT_NE(ends, 1u) << "seed " << seed;
  }
  EXPECT_GT(half_open, 0u);
}

TEST_F(NetworkTest, BreaksAtEachEndWhenAHostLosesItsPower) {
  const ConnectionId id = Open();
  network_.Abandon(id, End::kAgent);
  RunFor(Duration::Milliseconds(100));
  EXPECT_TRUE(seen_.empty());
  RunFor(Duration::Seconds(30));
  EXPECT_EQ(seen_, (std::vector<std::string>{"master eof"}));
}

}  // namespace
}  // namespace paceline::sim
