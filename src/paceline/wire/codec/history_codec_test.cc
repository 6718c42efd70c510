#include "paceline/wire/codec/history_codec.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace paceline::wire {
namespace {

KeptHistory EndedHistory(size_t events, size_t sentence_bytes) {
  KeptHistory history;
  history.status = {.job_id = "train-1", .phase = "finished", .step = 40, .exit_code = 0};
  history.status.nodes.push_back({.name = "node0", .state = "seated"});
  for (uint64_t seq = 1; seq <= events; ++seq) {
    JobEvent event;
    event.seq = seq;
    event.kind = "progress_made";
    event.sentence = std::string(sentence_bytes, 'x');
    event.details["exit_code"] = "0";
    history.events.push_back(event);
  }
  return history;
}

KeptHistory ReadHistoryBack(const std::string& bytes) {
  auto history = HistoryFromText(absl::Base64Escape(bytes));
  EXPECT_TRUE(history.ok()) << history.status();
  return history.ok() ? *history : KeptHistory{};
}

TEST(HistoryCodec, KeepsAllThatFits) {
  const KeptHistory history = EndedHistory(50, 60);
  EXPECT_EQ(ReadHistoryBack(EncodeHistory(history)), history);
}

TEST(HistoryCodec, LeavesOutTheOldestEventsAndNeverTheEnd) {
  const std::string bytes = EncodeHistory(EndedHistory(100, 5000));
  EXPECT_LE(bytes.size(), kHistoryBytesMax);
  const KeptHistory kept = ReadHistoryBack(bytes);
  EXPECT_EQ(kept.status.exit_code, 0);
  ASSERT_GE(kept.events.size(), 30u);
  EXPECT_EQ(kept.events.back().seq, 100u);
}

TEST(HistoryCodec, RefusesWhatIsNone) {
  EXPECT_FALSE(HistoryFromText("no base64!").ok());
  EXPECT_FALSE(HistoryFromText(absl::Base64Escape("\xff\xff\xff")).ok());
}

}  // namespace
}  // namespace paceline::wire
