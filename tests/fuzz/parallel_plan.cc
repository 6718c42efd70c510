// A parallel plan, which a checkpoint or another rank brings along.

#include <cstdint>

#include "paceline/plan/json.h"
#include "parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace plan = paceline::plan;
  const auto read = plan::ReadPlan(paceline::fuzz::AsText(data, size));
  if (!read.ok()) return 0;
  const std::string text = plan::PrintPlan(*read);
  const auto again = plan::ReadPlan(text);
  paceline::fuzz::Demand(again.ok() && plan::PrintPlan(*again) == text, "what we write we read");
  paceline::fuzz::Demand(plan::DigestOf(*again) == plan::DigestOf(*read), "with the same digest");
  return 0;
}
