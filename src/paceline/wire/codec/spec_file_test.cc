#include "paceline/wire/codec/spec_file.h"

#include <sys/stat.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/base/test_dir.h"

namespace paceline::wire {
namespace {

SpecFile Example() {
  SpecFile spec;
  spec.job = {.job_id = "job-1",
              .name = "a \"name\"",
              .nodes_min = 2,
              .nodes_max = 4,
              .unit = 2,
              .nproc_per_node = 3,
              .spares = 1,
              .max_restarts = 0,
              .grow = GrowPolicy::kNow,
              .replace_nodes = true,
              .seed = 1ull << 63};
  spec.job.timers.lost_after = Duration::Milliseconds(1500);
  spec.launch = {.entry = EntryKind::kModule,
                 .target = "pkg.train",
                 .args = {"--x", "", "é"},
                 .cwd = "/tmp",
                 .python = "/usr/bin/python3",
                 .env = {{"A", "b=c"}, {"E", ""}},
                 .nproc_per_node = 3,
                 .omp_threads = 0,
                 .warm = false,
                 .preload = {"torch"},
                 .keep_warm = Duration::Infinite(),
                 .log_bytes_max = 1ull << 40,
                 .log_total_bytes_max = 1ull << 41,
                 .master_port = 29'500,
                 .stdin_pid = 7,
                 .stdin_start = 1ull << 33,
                 .notify_command = {"page", "", "é"},
                 .notify_timeout = Duration::Seconds(3)};
  spec.launch.console.tee.by_local_rank[1] = Streams::kErr;
  spec.launch.console.fold = false;
  return spec;
}

TEST(SpecFile, Survives) {
  const auto text = FormatSpec(Example());
  ASSERT_TRUE(text.ok()) << text.status();
  const auto parsed = ParseSpec(*text);
  ASSERT_TRUE(parsed.ok()) << parsed.status() << *text;
  EXPECT_EQ(*parsed, Example());
}

TEST(SpecFile, IsPrivateOnDisk) {
  const TestDir dir;
  const std::string path = dir.path() + "/spec.json";
  ASSERT_TRUE(WriteSpecFile(Example(), path).ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(*ReadSpecFile(path), Example());
  chmod(path.c_str(), 0644);
  EXPECT_EQ(ReadSpecFile(path).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReadSpecFile(path + "x").status().code(), absl::StatusCode::kNotFound);
}

TEST(SpecFile, UnknownFieldsAndOtherSchemasAreRefused) {
  EXPECT_FALSE(ParseSpec("").ok());
  EXPECT_FALSE(ParseSpec("[]").ok());
  EXPECT_FALSE(ParseSpec(R"({"schema":"paceline.spec/2","job":{"job_id":"a"}})").ok());
  EXPECT_FALSE(ParseSpec(R"({"schema":"paceline.spec/1","job":{"job_id":"a","x":1}})").ok());
  EXPECT_FALSE(ParseSpec(R"({"schema":"paceline.spec/1","job":{"job_id":"../a"}})").ok());
  const auto least = ParseSpec(R"({"schema":"paceline.spec/1","job":{"job_id":"a"}})");
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_EQ(least->job.timers, Timers());
  EXPECT_EQ(least->launch, LaunchSpec());
}

TEST(SpecFile, TextThatIsNotUtf8IsAnError) {
  SpecFile spec = Example();
  spec.launch.env["LATIN"] = "\xe9";
  EXPECT_EQ(FormatSpec(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SpecFile, FuzzParse) {
  const std::string valid = *FormatSpec(Example());
  Prng prng(5);
  for (int i = 0; i < 3000; ++i) {
    std::string text = valid;
    for (uint64_t changes = 1 + prng.Below(4); changes > 0; --changes) {
      const size_t at = prng.Below(text.size());
      if (prng.Chance(1, 2)) {
        text[at] = static_cast<char>(prng.Below(256));
      } else {
        text.erase(at, 1 + prng.Below(20));
      }
    }
    const auto parsed = ParseSpec(text);
    EXPECT_TRUE(!parsed.ok() || FormatSpec(*parsed).ok());
  }
}

}  // namespace
}  // namespace paceline::wire
