// Copies of the journal: their bytes, and the messages that carry them.

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/journal_codec.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {
namespace {

TEST(JournalCopyMessages, Survive) {
  const JournalBytes piece{
      .term = 2, .from = 77, .content = "a\nb", .is_whole = true, .keepers = {"n"}};
  pb::AgentMessage message;
  ToProto(AgentMessage(piece), &message);
  ASSERT_TRUE(FromProto(message).ok());
  EXPECT_EQ(std::get<JournalBytes>(*FromProto(message)), piece);
  pb::MasterMessage answer;
  ToProto(MasterMessage(piece), &answer);
  ASSERT_TRUE(FromProto(answer).ok());
  EXPECT_EQ(std::get<JournalBytes>(*FromProto(answer)), piece);
  ToProto(MasterMessage(JournalWanted{78}), &answer);
  EXPECT_EQ(std::get<JournalWanted>(*FromProto(answer)).from, 78U);
  ToProto(AgentMessage(JournalHeld{79}), &message);
  EXPECT_EQ(std::get<JournalHeld>(*FromProto(message)).taken, 79U);
}

TEST(JournalCopyMessages, HostileOnesAreRefused) {
  pb::MasterMessage answer;
  answer.mutable_journal_piece()->set_term(kTermMax + 1);
  EXPECT_FALSE(FromProto(answer).ok());
  answer.Clear();
  answer.mutable_journal_piece()->add_keepers("../etc");
  EXPECT_FALSE(FromProto(answer).ok());
  answer.Clear();
  for (int i = 0; i < 100; ++i) answer.mutable_journal_piece()->add_keepers("n");
  EXPECT_FALSE(FromProto(answer).ok());
}

std::vector<core::Record> ThreeRecords() {
  std::vector<core::Record> records;
  const std::vector<core::Fact> facts = {
      core::MasterTookOver{7, 2, core::History::kCopy}, core::WaitBegan{"for nodes"},
      core::StopDecided{.exit_code = 3, .grace = Duration::Seconds(1), .reason = "because"}};
  for (const core::Fact& fact : facts) {
    records.push_back({.seq = RecordSeq(records.size() + 1),
                       .at = Instant::FromNanoseconds(1'000 + static_cast<int64_t>(records.size())),
                       .causes = records.empty() ? std::vector<RecordSeq>()
                                                 : std::vector<RecordSeq>{RecordSeq(1)},
                       .fact = fact});
  }
  return records;
}

TEST(JournalCopyFormat, RecordsSurvive) {
  std::string content;
  for (const core::Record& record : ThreeRecords()) AppendCopied(record, &content);
  const auto records = DecodeCopy(content);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(EncodeFact((*records)[i].fact), EncodeFact(ThreeRecords()[i].fact));
    EXPECT_EQ((*records)[i].at, ThreeRecords()[i].at);
    EXPECT_EQ((*records)[i].causes, ThreeRecords()[i].causes);
  }
  EXPECT_EQ(std::get<core::MasterTookOver>(records->front().fact).history, core::History::kCopy);
}

TEST(JournalCopyFormat, ATornTailCostsItsRecordAlone) {
  std::string content;
  std::vector<size_t> ends;
  for (const core::Record& record : ThreeRecords()) {
    AppendCopied(record, &content);
    ends.push_back(content.size());
  }
  for (size_t size = kCopyMagic.size(); size <= content.size(); ++size) {
    const auto records = DecodeCopy(std::string_view(content).substr(0, size));
    ASSERT_TRUE(records.ok()) << size;
    const auto whole =
        std::count_if(ends.begin(), ends.end(), [&](size_t end) { return end <= size; });
    EXPECT_EQ(records->size(), static_cast<size_t>(whole)) << size;
  }
}

TEST(JournalCopyFormat, DamageEndsIt) {
  std::string content;
  for (const core::Record& record : ThreeRecords()) AppendCopied(record, &content);
  EXPECT_FALSE(DecodeCopy("").ok());
  EXPECT_FALSE(DecodeCopy("PACELINE-COPY-2\n").ok()) << "another version";
  std::string flipped = content;
  flipped[content.size() - 2] ^= 1;
  EXPECT_EQ(DecodeCopy(flipped)->size(), 2U);
  std::string doubled = content + content.substr(kCopyMagic.size());
  EXPECT_FALSE(DecodeCopy(doubled).ok()) << "records out of order";
  std::string huge = content.substr(0, kCopyMagic.size()) + std::string(12, '\xff');
  EXPECT_EQ(DecodeCopy(huge)->size(), 0U);
}

TEST(JournalFacts, ASeatHoldsWhatANodeCanHold) {
  core::WorldFormed formed;
  formed.world.generation = Generation(1);
  formed.world.seats = {{.node = NodeId(1), .first_rank = 0, .rank_count = kRanksPerMessageMax}};
  EXPECT_TRUE(DecodeFact(EncodeFact(formed)).ok());
  formed.world.seats[0].rank_count = 16'000'000;
  EXPECT_FALSE(DecodeFact(EncodeFact(formed)).ok());
}

}  // namespace
}  // namespace paceline::wire
