#include "paceline/wire/codec/journal_codec.h"

#include <limits>

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

}  // namespace paceline::wire
