// Durations, sizes, numbers, lists, endpoints and stream choices, as flags, variables and settings
// give them. Durations and integers that are printed read back as the same.

#include "paceline/cli/settings/value.h"

#include "paceline/cli/console/text.h"
#include "paceline/cli/run/request.h"
#include "paceline/wire/codec/judge.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace cli = paceline::cli;
  using paceline::fuzz::Demand;
  const std::string text(paceline::fuzz::AsText(data, size));
  if (const auto duration = cli::ParseDuration(text)) {
    Demand(*duration >= paceline::Duration(), "no duration is negative");
    Demand(cli::ParseDuration(cli::FormatDuration(*duration)) == duration, "durations read back");
  }
  if (const auto number = cli::ParseInteger(text)) {
    Demand(cli::ParseInteger(std::to_string(*number)) == number, "integers read back");
  }
  (void)cli::ParseSize(text);
  (void)cli::ParseNumber(text);
  (void)cli::ParseOnOff(text);
  (void)cli::ParseCommaList(text);
  (void)cli::ParseStreams(text);
  (void)cli::ParseEndpoint(text, 29'400);
  Demand(paceline::wire::IsName(cli::ToName(text)), "every text has a nearest name");
  return 0;
}
