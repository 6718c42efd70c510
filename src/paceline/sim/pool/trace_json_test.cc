// Traces as files: whole there and back, and never half.

#include "paceline/sim/pool/trace_json.h"

#include <gtest/gtest.h>

#include "paceline/base/prng.h"
#include "paceline/sim/pool/made_trace.h"

namespace paceline::sim {
namespace {

TEST(TraceJsonTest, AMadeTraceComesBackAsItWas) {
  const PoolTrace made = MadeTrace(2);
  std::string wrong;
  const auto read = ReadTrace(TraceText(made), &wrong);
  ASSERT_TRUE(read.has_value()) << wrong;
  EXPECT_EQ(TraceText(*read), TraceText(made));
  EXPECT_EQ(read->jobs.back().seed, made.jobs.back().seed);
}

std::string WrongWith(std::string_view from, std::string_view to) {
  PoolTrace trace = MadeTrace(2);
  trace.jobs.resize(1);
  std::string text = TraceText(trace);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  std::string wrong;
  EXPECT_FALSE(ReadTrace(text, &wrong).has_value());
  return wrong;
}

TEST(TraceJsonTest, TheFirstWrongValueIsNamed) {
  EXPECT_EQ(WrongWith("\"script\":", "\"script_\":"), "jobs[0].script is missing, or is no number");
  EXPECT_EQ(WrongWith("\"factor\":", "\"factor\":0,\"f\":"),
            "jobs[0].memory.factor is out of range");
  EXPECT_EQ(WrongWith("\"nodes\":", "\"nodes\":1.5,\"n\":"), "jobs[0].nodes is no whole number");
  EXPECT_EQ(WrongWith("\"cores\":", "\"cores\":\"8\",\"c\":"),
            "pool.cores is missing, or is no number");
  EXPECT_EQ(WrongWith("pool_trace/1", "pool_trace/2"), "format is not paceline.pool_trace/1");
  EXPECT_EQ(WrongWith("\"jobs\":[", "\"jobs\":[],\"j\":["), "jobs is no list of 1 to 100000 jobs");
  std::string wrong;
  EXPECT_FALSE(ReadTrace("[]", &wrong).has_value());
  EXPECT_EQ(wrong, "it is no JSON object");
}

TEST(TraceJsonTest, DamagedTextIsRefusedOrStillATrace) {
  PoolTrace trace = MadeTrace(4);
  trace.jobs.resize(2);
  const std::string text = TraceText(trace);
  Prng prng(9);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text;
    damaged[prng.Below(damaged.size())] = static_cast<char>(prng.Between(0, 255));
    std::string wrong;
    const auto read = ReadTrace(damaged, &wrong);
    EXPECT_EQ(read.has_value(), wrong.empty());
    if (!read.has_value()) continue;
    for (const PoolJob& job : read->jobs) EXPECT_GT(job.curve.At(1), 0);
  }
}

}  // namespace
}  // namespace paceline::sim
