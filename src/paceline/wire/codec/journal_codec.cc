#include "paceline/wire/codec/journal_codec.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "paceline/base/fnv.h"
#include "paceline/base/text.h"

#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/from_proto.h"

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

// Of a record in a copy: the size and the check of what follows, both little-endian.
constexpr size_t kHeadBytes = sizeof(uint32_t) + sizeof(uint64_t);
constexpr uint32_t kRecordBytesMax = 16 << 20;

template <class Number>
void AppendNumber(Number number, std::string* content) {
  for (size_t i = 0; i < sizeof(Number); ++i) {
    content->push_back(static_cast<char>(static_cast<unsigned char>(number >> (8 * i))));
  }
}

template <class Number>
Number TakeNumber(std::string_view* content) {
  Number number = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) {
    number |= static_cast<Number>(static_cast<unsigned char>((*content)[i])) << (8 * i);
  }
  content->remove_prefix(sizeof(Number));
  return number;
}

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
  AppendNumber(static_cast<uint32_t>(bytes.size()), content);
  AppendNumber(Fnv1a(bytes), content);
  *content += bytes;
}

absl::StatusOr<std::vector<core::Record>> DecodeCopy(std::string_view content) {
  if (!TakePrefix(&content, kCopyMagic)) return absl::DataLossError("not a copy of a journal");
  std::vector<core::Record> records;
  while (content.size() >= kHeadBytes) {
    const auto size = TakeNumber<uint32_t>(&content);
    const auto check = TakeNumber<uint64_t>(&content);
    if (size > kRecordBytesMax || size > content.size()) break;  // torn
    const std::string_view bytes = content.substr(0, size);
    if (Fnv1a(bytes) != check) break;
    content.remove_prefix(size);
    absl::StatusOr<core::Record> record = DecodeCopied(bytes);
    if (!record.ok()) return MakeStatus(absl::StatusCode::kDataLoss, Text(record.status()));
    if (record->seq.value() != records.size() + 1)
      return absl::DataLossError("a record is missing");
    records.push_back(*std::move(record));
  }
  return records;
}

}  // namespace paceline::wire
