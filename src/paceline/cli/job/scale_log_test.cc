#include "paceline/cli/job/scale_log.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

wire::JobEvent At(int64_t second, std::string kind,
                  std::map<std::string, std::string> details = {}) {
  wire::JobEvent event;
  event.seq = static_cast<uint64_t>(second);
  event.time_ns = second * kSecond;
  event.kind = std::move(kind);
  event.details = std::move(details);
  return event;
}

wire::JobEvent FormedAt(int64_t second, size_t nodes) {
  wire::JobEvent event = At(second, "world_formed");
  event.members.resize(nodes);
  return event;
}

TEST(ScaleLog, SaysOfEachSizeWhetherItWasReached) {
  const std::vector<wire::JobEvent> events = {
      At(1, "job_created"),
      FormedAt(2, 2),
      At(3, "world_running"),
      At(10, "size_chosen", {{"nodes", "4"}, {"by_measurement", "true"}, {"reason", "faster"}}),
      FormedAt(12, 4),
      At(14, "world_running"),
      At(20, "size_chosen", {{"nodes", "9"}, {"by_measurement", "false"}}),
      At(22, "size_chosen", {{"nodes", "4"}, {"by_measurement", "false"}}),
      At(30, "size_chosen", {{"nodes", "1"}, {"by_measurement", "false"}}),
      FormedAt(32, 1),
  };
  const std::vector<SizeDecision> decisions = SizeDecisions(events);
  ASSERT_EQ(decisions.size(), 4U);
  EXPECT_EQ(OutcomeOf(decisions[0]), "reached after 4 s");
  EXPECT_TRUE(decisions[0].is_measured);
  EXPECT_EQ(decisions[0].reason, "faster");
  EXPECT_EQ(OutcomeOf(decisions[1]), "replaced before it was reached");
  EXPECT_EQ(OutcomeOf(decisions[2]), "the job had it");
  EXPECT_EQ(OutcomeOf(decisions[3]), "not reached") << "its ranks do not train yet";
}

TEST(ScaleLog, IsEmptyForAJobWhoseSizeNobodyChose) {
  EXPECT_TRUE(SizeDecisions({At(1, "job_created"), FormedAt(2, 3)}).empty());
}

}  // namespace
}  // namespace paceline::cli
