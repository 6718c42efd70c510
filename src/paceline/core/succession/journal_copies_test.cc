#include "paceline/core/succession/journal_copies.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/core/succession/journal_copy.h"

namespace paceline::core {
namespace {

using Nodes = std::vector<NodeId>;
using Copy = JournalCopy<std::string>;
using Piece = JournalPiece<std::string>;

const NodeId kOne(1);
const NodeId kTwo(2);
const NodeId kThree(3);
const NodeId kFour(4);

TEST(ChooseKeepers, TakesTwoNodesOfOtherHosts) {
  EXPECT_EQ(ChooseKeepers("m", {{kOne, "m"}, {kTwo, "a"}, {kThree, "b"}, {kFour, "c"}}, {}),
            (Nodes{kTwo, kThree}));
}

TEST(ChooseKeepers, PrefersDifferentHosts) {
  EXPECT_EQ(ChooseKeepers("m", {{kOne, "a"}, {kTwo, "a"}, {kThree, "b"}}, {}),
            (Nodes{kOne, kThree}));
}

TEST(ChooseKeepers, LeavesACopyWhereItIs) {
  EXPECT_EQ(ChooseKeepers("m", {{kOne, "a"}, {kTwo, "b"}, {kThree, "c"}}, {kThree}),
            (Nodes{kThree, kOne}));
}

TEST(ChooseKeepers, MovesACopyAwayFromTheMastersHost) {
  EXPECT_EQ(ChooseKeepers("m", {{kOne, "m"}, {kTwo, "b"}, {kThree, "c"}}, {kOne}),
            (Nodes{kTwo, kThree}));
}

TEST(ChooseKeepers, TakesTheMastersHostWhereThereIsNoOther) {
  EXPECT_EQ(ChooseKeepers("m", {{kOne, "m"}}, {}), Nodes{kOne});
  EXPECT_EQ(ChooseKeepers("m", {}, {}), Nodes{});
}

class JournalCopiesTest : public ::testing::Test {
 protected:
  JournalCopiesTest() {
    copies_.Came(kOne, "node0", "a");
    copies_.Came(kTwo, "node1", "b");
  }
  // "1:0+10 2:0+10!", with "!" where the piece is the last one.
  std::string Next(uint64_t length) {
    std::string text;
    for (const JournalCopies::Send& send : copies_.Next(length)) {
      text += (text.empty() ? "" : " ") + ToString(send.node) + ":" + std::to_string(send.from) +
              "+" + std::to_string(send.size) + (send.is_whole ? "!" : "");
    }
    return text;
  }
  JournalCopies copies_{"m", 10};
};

TEST_F(JournalCopiesTest, SendsOnePieceAtATimeToEachKeeper) {
  EXPECT_EQ(Next(25), "1:0+10 2:0+10");
  EXPECT_EQ(Next(25), "");
  copies_.Held(kOne, 10);
  EXPECT_EQ(Next(25), "1:10+10");
  copies_.Held(kTwo, 10);
  copies_.Held(kOne, 20);
  EXPECT_EQ(Next(25), "1:20+5! 2:10+10");
  copies_.Held(kOne, 25);
  EXPECT_EQ(Next(25), "");
  EXPECT_EQ(Next(26), "1:25+1!");
}

TEST_F(JournalCopiesTest, GivesTheCopyOfALostNodeToAnother) {
  Next(5);
  copies_.Held(kOne, 5);
  copies_.Held(kTwo, 5);
  copies_.Came(kThree, "node2", "c");
  EXPECT_EQ(Next(5), "");
  copies_.Went(kOne);
  // The node that stays is told who the other keeper is now.
  EXPECT_EQ(Next(5), "2:5+0! 3:0+5!");
  EXPECT_EQ(copies_.keepers(), (std::vector<std::string>{"node1", "node2"}));
}

TEST(JournalCopies, LeaveTheMastersHostWhenOtherHostsCome) {
  JournalCopies copies("m", 10);
  copies.Came(kOne, "node0", "m");
  copies.Came(kTwo, "node1", "m");
  EXPECT_EQ(copies.Next(5).size(), 2U);
  copies.Came(kThree, "node2", "a");
  EXPECT_EQ(copies.Next(5).size(), 1U);
  EXPECT_EQ(copies.keepers(), (std::vector<std::string>{"node0", "node2"}));
  copies.Came(kFour, "node3", "b");
  EXPECT_EQ(copies.Next(5).size(), 1U);
  EXPECT_EQ(copies.keepers(), (std::vector<std::string>{"node2", "node3"}));
}

TEST_F(JournalCopiesTest, BeginsAnewOnANewConnection) {
  Next(5);
  copies_.Held(kOne, 5);
  copies_.Came(kOne, "node0", "a");
  EXPECT_EQ(Next(5), "1:0+5!");
}

TEST_F(JournalCopiesTest, BelievesANodeThatHasLess) {
  Next(5);
  copies_.Held(kOne, 5);
  copies_.Held(kTwo, 0);
  EXPECT_EQ(Next(5), "2:0+5!");
}

TEST(JournalCopy, OffersWhatIsWhole) {
  Copy copy;
  EXPECT_EQ(copy.offer(), CopyOffer{});
  copy.Take({.term = 1, .from = 0, .content = "abc", .keepers = {"node0"}});
  EXPECT_EQ(copy.offer().length, 0U) << "more of it is on its way";
  EXPECT_EQ(copy.taken(), 3U);
  copy.Take({.term = 1, .from = 3, .content = "de", .is_whole = true, .keepers = {"node0"}});
  EXPECT_EQ(copy.offer(), (CopyOffer{1, 5, {"node0"}}));
  copy.Take({.term = 1, .from = 5, .content = "f"});
  EXPECT_EQ(copy.offer().length, 6U) << "it is a longer part of the same journal";
  EXPECT_EQ(copy.Read(0, 4), (Piece{.term = 1, .from = 0, .content = "abcd"}));
  EXPECT_EQ(copy.Read(4, 4).content, "ef");
  EXPECT_TRUE(copy.Read(4, 4).is_whole);
}

TEST(JournalCopy, KeepsTheFormerOneUntilTheNextIsWhole) {
  Copy copy;
  copy.Take({.term = 1, .from = 0, .content = "abcdef", .is_whole = true});
  copy.Take({.term = 2, .from = 0, .content = "ab"});
  EXPECT_EQ(copy.offer(), (CopyOffer{1, 6, {}}));
  EXPECT_EQ(copy.taken(), 2U);
  copy.Take({.term = 2, .from = 2, .content = "cX", .is_whole = true});
  EXPECT_EQ(copy.offer(), (CopyOffer{2, 4, {}}));
  EXPECT_EQ(copy.Read(0, 100).content, "abcX");
}

TEST(JournalCopy, DropsWhatDoesNotContinueIt) {
  Copy copy;
  copy.Take({.term = 1, .from = 0, .content = "abc", .is_whole = true});
  copy.Take({.term = 1, .from = 5, .content = "fgh", .is_whole = true});
  EXPECT_EQ(copy.taken(), 3U);
  copy.Take({.term = 2, .from = 3, .content = "X", .is_whole = true});
  EXPECT_EQ(copy.offer(), (CopyOffer{1, 3, {}})) << "of another master's journal";
  EXPECT_EQ(copy.Read(99, 5).content, "");
}

}  // namespace
}  // namespace paceline::core
