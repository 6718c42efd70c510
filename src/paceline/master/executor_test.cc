#include "paceline/master/executor.h"

#include "gtest/gtest.h"

namespace paceline::master {
namespace {

class List final : public Outbox {
 public:
  void Send(ConnectionId connection, wire::MasterMessage message) override {
    const char* kinds[] = {"welcome", "pace", "assignment", "refusal"};
    lines.push_back("send " + ToString(connection) + " " + kinds[message.index()]);
  }
  void Close(ConnectionId connection, std::string) override {
    lines.push_back("close " + ToString(connection));
  }
  void Order(wire::SupervisorId supervisor, wire::SupervisorOrder order) override {
    const char* kinds[] = {"wish", "summary", "ended"};
    lines.push_back("order " + ToString(supervisor) + " " + kinds[order.index()]);
  }
  std::vector<std::string> lines;
};

using Lines = std::vector<std::string>;

TEST(Executor, NothingRunsBeforeItsRecordsAreDurable) {
  List list;
  Executor executor(&list);
  executor.Add(RecordSeq(2), core::AdmitNode{ConnectionId(1), NodeId(7)});
  executor.Add(RecordSeq(2), core::AssignNode{NodeId(7), {}});
  executor.SetDurable(RecordSeq(1));
  EXPECT_EQ(list.lines, Lines());
  executor.SetDurable(RecordSeq(2));
  EXPECT_EQ(list.lines, (Lines{"send 1 welcome", "send 1 assignment"}));
}

TEST(Executor, OrderHoldsThoughAnEffectNeedsNoRecord) {
  List list;
  Executor executor(&list);
  executor.Add(RecordSeq(5), core::TellWish{{.seq = 5, .size = 2}});
  executor.Attach(wire::SupervisorId(3), Instant());
  bool replied = false;
  executor.AddReply(RecordSeq(5), [&] { replied = true; });
  executor.Add(RecordSeq(0), core::RefuseNode{ConnectionId(9)});
  EXPECT_FALSE(replied);
  EXPECT_EQ(list.lines, Lines());
  executor.SetDurable(RecordSeq(9));
  EXPECT_TRUE(replied);
  EXPECT_EQ(list.lines, (Lines{"order 3 wish", "send 9 refusal"}));
}

TEST(Executor, ANewerConnectionTakesOver) {
  List list;
  Executor executor(&list);
  executor.Add(RecordSeq(), core::AdmitNode{ConnectionId(1), NodeId(7)});
  executor.Add(RecordSeq(), core::AdmitNode{ConnectionId(2), NodeId(7)});
  EXPECT_EQ(list.lines, (Lines{"send 1 welcome", "close 1", "send 2 welcome"}));
  EXPECT_EQ(executor.NodeOf(ConnectionId(1)), std::nullopt);
  EXPECT_EQ(executor.NodeOf(ConnectionId(2)), NodeId(7));
  executor.Forget(ConnectionId(1));  // a late end changes nothing
  executor.Add(RecordSeq(), core::AssignNode{NodeId(7), {}});
  EXPECT_EQ(list.lines.back(), "send 2 assignment");
  executor.Forget(ConnectionId(2));
  executor.Add(RecordSeq(), core::AssignNode{NodeId(7), {}});
  EXPECT_EQ(list.lines.size(), 4u) << "dropped: it is told at its return";
}

TEST(Executor, AConnectionThatWentBeforeItsAdmissionIsNotAdmitted) {
  List list;
  Executor executor(&list);
  executor.Add(RecordSeq(1), core::AdmitNode{ConnectionId(1), NodeId(7)});
  EXPECT_EQ(executor.NodeOf(ConnectionId(1)), NodeId(7));
  executor.Forget(ConnectionId(1));
  executor.SetDurable(RecordSeq(1));
  EXPECT_EQ(list.lines, Lines());
}

TEST(Executor, EveryLauncherHearsTheEnd) {
  List list;
  Executor executor(&list);
  executor.Attach(wire::SupervisorId(1), Instant());
  executor.Add(RecordSeq(), core::FinishJob{4, "done"});
  executor.Attach(wire::SupervisorId(2), Instant());
  EXPECT_EQ(list.lines, (Lines{"order 1 ended", "order 2 ended"}));
  EXPECT_EQ(executor.ended()->exit_code, 4);
}

TEST(Executor, AnEndThatNoLauncherHasHeardIsNotTold) {
  List list;
  Executor executor(&list);
  executor.Add(RecordSeq(), core::FinishJob{4, "done"});
  EXPECT_FALSE(executor.has_told_end());
  executor.Attach(wire::SupervisorId(1), Instant());
  EXPECT_TRUE(executor.has_told_end());
}

TEST(Executor, ALauncherWhoseStreamBrokeBeforeTheEndIsAwaited) {
  List list;
  Executor executor(&list);
  const Instant now = Instant() + Duration::Seconds(100);
  executor.Attach(wire::SupervisorId(1), Instant());
  EXPECT_LE(executor.may_come_back_until(), now);
  executor.Detach(wire::SupervisorId(1), now);
  EXPECT_GT(executor.may_come_back_until(), now);
  executor.Add(RecordSeq(), core::FinishJob{4, "done"});
  executor.Attach(wire::SupervisorId(2), Instant());
  EXPECT_LE(executor.may_come_back_until(), now);
  executor.Detach(wire::SupervisorId(2), now);
  EXPECT_LE(executor.may_come_back_until(), now) << "it had been told of the end";
}

TEST(Executor, AnOperatorIsToldOfTheEndUntilItHasKeptIt) {
  List list;
  Executor executor(&list);
  int asked = 0;
  executor.OnEnded([&] { return std::to_string(++asked); });
  Instant now = Instant() + Duration::Seconds(100);
  const wire::SupervisorId one(1);
  const wire::SupervisorId other(2);
  executor.Attach(one, now, /*is_operator=*/true);
  executor.Attach(other, now);
  executor.Add(RecordSeq(), core::FinishJob{0, "done"});
  EXPECT_EQ(list.lines, (Lines{"order 1 ended", "order 2 ended"}));
  EXPECT_EQ(asked, 1);
  executor.RepeatEnd(now);
  EXPECT_EQ(list.lines.size(), 2u) << "it was told a moment ago";
  now = executor.NextRepeat();
  executor.RepeatEnd(now);
  EXPECT_EQ(list.lines, (Lines{"order 1 ended", "order 2 ended", "order 1 ended"}));
  executor.KeptEnd(one);
  EXPECT_FALSE(executor.IsEndMissed());
  EXPECT_EQ(executor.NextRepeat(), Instant::Max());
  executor.Detach(one, now);
  EXPECT_LE(executor.may_come_back_until(), now);
}

TEST(Executor, AnOperatorWhoseStreamBrokeBeforeItKeptTheEndIsAwaited) {
  List list;
  Executor executor(&list);
  const Instant now = Instant() + Duration::Seconds(100);
  executor.Attach(wire::SupervisorId(1), now, /*is_operator=*/true);
  executor.Add(RecordSeq(), core::FinishJob{0, "done"});
  executor.Detach(wire::SupervisorId(1), now);
  EXPECT_GT(executor.may_come_back_until(), now);
  executor.Attach(wire::SupervisorId(2), now, /*is_operator=*/true);
  EXPECT_EQ(list.lines.back(), "order 2 ended");
}

}  // namespace
}  // namespace paceline::master
