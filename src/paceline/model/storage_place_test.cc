#include "paceline/model/storage_place.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace paceline {
namespace {

TEST(StoragePlaceTest, DirectoriesStayAsTheyWereGiven) {
  for (const char* given : {"/runs/gpt", "runs/gpt", "", ".", "a:b", ":/a", "./gs://b", "/a/gs://b",
                            "1:/a", "a b:/c"}) {
    const StoragePlace place = JudgePlace(given);
    EXPECT_EQ(place.text, given);
    EXPECT_EQ(place.problem, "") << given;
    EXPECT_EQ(place.bucket, "") << given;
    EXPECT_EQ(IsWholePlace(given), std::string_view(given).starts_with("/")) << given;
  }
  EXPECT_NE(JudgePlace(std::string_view("/a\0b", 4)).problem, "");
  EXPECT_FALSE(IsWholePlace(std::string_view("/a\0b", 4)));
}

TEST(StoragePlaceTest, ABucketIsFoundHoweverItsSlashesAreWritten) {
  for (const char* given :
       {"s3://bucket/runs/gpt", "s3:/bucket/runs/gpt/", "s3:///bucket/runs/gpt"}) {
    const StoragePlace place = JudgePlace(given);
    EXPECT_EQ(place.problem, "") << given;
    EXPECT_EQ(place.text, "s3://bucket/runs/gpt");
    EXPECT_EQ(place.bucket, "bucket");
    EXPECT_EQ(place.prefix, "runs/gpt");
  }
  EXPECT_TRUE(IsWholePlace("s3://bucket"));
  EXPECT_FALSE(IsWholePlace("s3:/bucket"));
}

TEST(StoragePlaceTest, ASchemeThatNothingServesIsNoDirectory) {
  for (const char* given : {"gs://b/run", "gs:/b/run", "azure://x", "S3://bucket/run", "abfs:/x",
                            "file:///runs", "hdfs://h:1/x", "a+b-c.1://x", "C:/runs"}) {
    const StoragePlace place = JudgePlace(given);
    EXPECT_NE(place.problem, "") << given;
    EXPECT_NE(place.fix, "") << given;
    EXPECT_FALSE(IsWholePlace(given)) << given;
  }
}

TEST(StoragePlaceTest, BucketsHaveTheNamesThatS3Allows) {
  const std::vector<std::string> names = {"abc",
                                          "my-bucket.of-9",
                                          "1a2",
                                          "1.2.3",
                                          "1.2.3.a",
                                          "data--use1-az4--x-s3",
                                          std::string(63, 'a')};
  for (const std::string& name : names) {
    EXPECT_EQ(JudgePlace("s3://" + name).problem, "") << name;
  }
  const std::vector<std::string> wrong = {
      "",     "a",    "ab",         "Bucket",   "my_bucket",
      "-abc", "abc-", ".abc",       "abc.",     "a..b",
      "a b",  "b?x",  "b\xc3\xa4r", "10.0.0.1", std::string(64, 'a')};
  for (const std::string& name : wrong) {
    EXPECT_NE(JudgePlace("s3://" + name).problem, "") << name;
    EXPECT_FALSE(IsWholePlace("s3://" + name)) << name;
  }
  for (const char* prefix : {"../x", "a/./b", "a//b", "a b", "a?b", "%41"}) {
    EXPECT_NE(JudgePlace(std::string("s3://bucket/") + prefix).problem, "") << prefix;
  }
  EXPECT_NE(JudgePlace("s3://bucket/" + std::string(513, 'a')).problem, "");
}

}  // namespace
}  // namespace paceline
