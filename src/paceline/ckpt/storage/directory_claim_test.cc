#include "paceline/ckpt/storage/directory_claim.h"

#include <gtest/gtest.h>

#include <string>

#include "paceline/base/test_dir.h"
#include "paceline/ckpt/store/posix.h"

namespace paceline::ckpt {
namespace {

DirectoryClaim ClaimOf(const std::string& job, uint64_t beat = 1) {
  return {.job_id = job,
          .host = "h\"1",
          .boot_id = "b",
          .pid_space = 4026531836,
          .pid = 17,
          .start_ticks = 99,
          .since = "2026-11-25T01:00:00Z",
          .beat = beat};
}

TEST(DirectoryClaimTest, IsReadAsItWasWritten) {
  DirectoryClaim claim = ClaimOf("a");
  claim.term = 3;
  EXPECT_EQ(ParseClaim(ToText(claim)), claim);
}

TEST(DirectoryClaimTest, AnOlderReleaseNamesNoTerm) {
  const auto claim = ParseClaim(
      R"({"schema":"paceline.claim/1","job_id":"a","host":"h","boot_id":"b","pid_space":1,"pid":2,)"
      R"("start_ticks":3,"since":"x","beat":4})");
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ(claim->term, 0u);
}

TEST(DirectoryClaimTest, ANewerMasterOfTheJobFencesAnOlderOne) {
  const TestDir dir;
  const auto store = MakePosixStore(dir.path());
  DirectoryClaim claim = ClaimOf("a");
  claim.term = 2;
  ASSERT_TRUE(WriteClaim(store.get(), std::nullopt, claim).ok());
  EXPECT_TRUE(*CheckClaim(store.get(), "a", 2, std::nullopt));
  EXPECT_TRUE(*CheckClaim(store.get(), "a", 3, std::nullopt)) << "its own claim comes";
  const Result<bool> refused = CheckClaim(store.get(), "a", 1, std::nullopt);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().kind, FailureKind::kFenced);
  EXPECT_EQ(refused.failure().message,
            "the directory is for the job's master of term 2 now, and this node listens to that of "
            "term 1");
}

TEST(DirectoryClaimTest, WhatIsNoClaimIsNone) {
  for (const std::string text :
       {"", "{", "[]", "7", R"({"schema":"paceline.claim/1"})", R"({"schema":"paceline.claim/2"})",
        R"({"schema":"paceline.claim/1","job_id":7})"}) {
    EXPECT_FALSE(ParseClaim(text).has_value()) << text;
  }
}

TEST(DirectoryClaimTest, IsWrittenOverWhatWasSeenAlone) {
  const TestDir dir;
  const auto store = MakePosixStore(dir.path());
  EXPECT_FALSE(ReadClaim(store.get())->has_value());
  ASSERT_TRUE(WriteClaim(store.get(), std::nullopt, ClaimOf("a")).ok());
  EXPECT_EQ(WriteClaim(store.get(), std::nullopt, ClaimOf("b")).failure().kind,
            FailureKind::kFenced);
  ASSERT_TRUE(WriteClaim(store.get(), ClaimOf("a"), ClaimOf("a", 2)).ok());
  EXPECT_EQ(WriteClaim(store.get(), ClaimOf("a"), ClaimOf("b")).failure().kind,
            FailureKind::kFenced);
  ASSERT_TRUE(WriteClaim(store.get(), ClaimOf("a", 2), ClaimOf("b")).ok());
  EXPECT_EQ(*ReadClaim(store.get()), ClaimOf("b"));
  ASSERT_TRUE(RemoveClaim(store.get(), ClaimOf("a", 2)).ok());
  EXPECT_TRUE(ReadClaim(store.get())->has_value());
  ASSERT_TRUE(RemoveClaim(store.get(), ClaimOf("b")).ok());
  EXPECT_FALSE(ReadClaim(store.get())->has_value());
}

TEST(DirectoryClaimTest, AFileThatIsNoClaimIsReplaced) {
  const TestDir dir;
  const auto store = MakePosixStore(dir.path());
  ASSERT_TRUE(Put(store.get(), kClaimName, "cut off", Store::PutMode::kNew).ok());
  ASSERT_TRUE(WriteClaim(store.get(), std::nullopt, ClaimOf("a")).ok());
  EXPECT_EQ(*ReadClaim(store.get()), ClaimOf("a"));
}

TEST(DirectoryClaimTest, AnotherJobsClaimFencesAndNoneDoesNot) {
  const TestDir dir;
  const auto store = MakePosixStore(dir.path());
  const std::vector<ForeignCheckpoint> nothing;
  EXPECT_FALSE(*CheckClaim(store.get(), "a", 0, std::nullopt));
  EXPECT_FALSE(*CheckClaim(store.get(), "a", 0, nothing));
  ASSERT_TRUE(WriteClaim(store.get(), std::nullopt, ClaimOf("a")).ok());
  EXPECT_TRUE(*CheckClaim(store.get(), "a", 0, nothing));
  const Result<bool> refused = CheckClaim(store.get(), "b", 0, nothing);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.failure().message,
      "the directory is another job's now: job a (process 17 on h\"1) saves to " + dir.path());
}

}  // namespace
}  // namespace paceline::ckpt
