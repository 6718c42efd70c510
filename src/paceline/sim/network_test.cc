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
