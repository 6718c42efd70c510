#include "paceline/wire/codec/journal_codec.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "paceline/base/fnv.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/numbers.h"

namespace paceline::wire {

std::string EncodeFact(const core::Fact& fact) {
  pb::Fact message;
  ToProto(fact, &message);
  return message.SerializeAsString();
}

absl::StatusOr<core::Fact> DecodeFact(std::string_view bytes) {
  pb::Fact message;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError("not a fact");
  }
  absl::StatusOr<core::Fact> fact = FromProto(message);
  if (!fact.ok()) return MakeStatus(absl::StatusCode::kDataLoss, Text(fact.status()));
  return fact;
}

namespace {

// Head of a record in a copy: the size and the hash of its body, both little-endian.
constexpr size_t kHeadBytes = sizeof(uint32_t) + sizeof(uint64_t);
constexpr uint32_t kRecordBytesMax = 16 << 20;

absl::StatusOr<core::Record> DecodeCopied(std::string_view bytes) {
  pb::CopiedRecord message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError("not a record");
  }
  ASSIGN_OR_RETURN(core::Fact fact, FromProto(message.fact()));
  core::Record record{.seq = RecordSeq(message.seq()),
                      .at = Instant::FromNanoseconds(message.at()),
                      .causes = {},
                      .fact = std::move(fact)};
  for (const uint64_t cause : message.causes()) record.causes.emplace_back(cause);
  return record;
}

}  // namespace

void AppendCopied(const core::Record& record, std::string* content) {
  if (content->empty()) *content = kCopyMagic;
  pb::CopiedRecord message;
  message.set_seq(record.seq.value());
  message.set_at(record.at.nanoseconds());
  for (const RecordSeq cause : record.causes) message.add_causes(cause.value());
  ToProto(record.fact, message.mutable_fact());
  const std::string bytes = message.SerializeAsString();
  AppendNumber(content, static_cast<uint32_t>(bytes.size()));
  AppendNumber(content, Fnv1a(bytes));
  *content += bytes;
}

absl::StatusOr<std::vector<core::Record>> DecodeCopy(std::string_view content) {
  if (!TakePrefix(&content, kCopyMagic)) return absl::DataLossError("not a copy of a journal");
  std::vector<core::Record> records;
  NumberTaker rest(content);
  while (rest.left() >= kHeadBytes) {
    const auto size = rest.Number<uint32_t>();
    const auto check = rest.Number<uint64_t>();
    if (size > kRecordBytesMax || size > rest.left()) break;  // torn
    const std::string_view bytes = rest.Bytes(size);
    if (Fnv1a(bytes) != check) break;
    absl::StatusOr<core::Record> record = DecodeCopied(bytes);
    if (!record.ok()) return MakeStatus(absl::StatusCode::kDataLoss, Text(record.status()));
    if (record->seq.value() != records.size() + 1)
      return absl::DataLossError("a record is missing");
    records.push_back(*std::move(record));
  }
  return records;
}

}  // namespace paceline::wire
