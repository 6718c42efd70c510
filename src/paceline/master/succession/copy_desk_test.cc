#include "paceline/master/succession/copy_desk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::master {
namespace {

class Wire : public Outbox {
 public:
  void Send(ConnectionId, wire::MasterMessage message) override {
    if (auto* piece = std::get_if<wire::JournalBytes>(&message)) sent.push_back(std::move(*piece));
  }
  void Close(ConnectionId, std::string) override {}
  void Order(wire::SupervisorId, wire::SupervisorOrder) override {}

  std::vector<wire::JournalBytes> sent;
};

core::Record Long(uint64_t seq, size_t bytes) {
  return {.seq = RecordSeq(seq), .fact = core::StopDecided{.reason = std::string(bytes, 'x')}};
}

// A master that is started again appends its whole journal at once. An agent takes no more than
// 80 MiB, so a longer copy would be sent for ever.
TEST(CopyDesk, ALongJournalIsCopiedUpToTheLimit) {
  constexpr size_t kRecordBytes = 16 << 10;
  Wire wire;
  CopyDesk desk(&wire);
  desk.Enable(1, "m");
  desk.Admitted(NodeId(1), ConnectionId(1), "node0", "a");
  std::vector<core::Record> records;
  for (uint64_t seq = 1; seq <= 5'000; ++seq) records.push_back(Long(seq, kRecordBytes));
  desk.Append(records);
  desk.SetDurable(RecordSeq(5'000));
  uint64_t taken = 0;
  size_t count = 0;
  while (count < wire.sent.size()) {
    taken = wire.sent[count].from + wire.sent[count].content.size();
    ++count;
    ASSERT_LT(count, 1'000u);
    desk.Held(ConnectionId(1), taken);
  }
  EXPECT_TRUE(wire.sent.back().is_whole);
  EXPECT_GT(taken, CopyDesk::kContentBytesMax);
  EXPECT_LE(taken, CopyDesk::kContentBytesMax + 2 * kRecordBytes);
}

}  // namespace
}  // namespace paceline::master
