// spec.json: what was read is written, and read again as the same.

#include "paceline/wire/codec/spec_file.h"

#include "google/protobuf/stubs/logging.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer silent;
  const auto spec = paceline::wire::ParseSpec(paceline::fuzz::AsText(data, size));
  if (!spec.ok()) return 0;
  const auto text = paceline::wire::FormatSpec(*spec);
  paceline::fuzz::Demand(text.ok(), "a spec that was read can be written");
  const auto again = paceline::wire::ParseSpec(*text);
  paceline::fuzz::Demand(again.ok() && *again == *spec, "and reads as the same");
  return 0;
}
