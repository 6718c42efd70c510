// The join string that people copy from one host to another.

#include "paceline/wire/security/credentials.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto join = paceline::wire::ParseJoinString(paceline::fuzz::AsText(data, size));
  if (!join.ok()) return 0;
  const auto again = paceline::wire::ParseJoinString(paceline::wire::FormatJoinString(*join));
  paceline::fuzz::Demand(again.ok() && *again == *join, "a join string reads as it was written");
  return 0;
}
