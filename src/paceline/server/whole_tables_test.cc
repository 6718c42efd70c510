#include "paceline/server/whole_tables.h"

#include <gtest/gtest.h>

#include "paceline/base/test_dir.h"

namespace paceline::server {
namespace {

TEST(WholeTablesTest, ANewRunIsRefusedWhereRowsAreGoneAndStaysSo) {
  const TestDir dir;
  FirstLoad load{.directory = dir.path(), .job_id = "one", .lost = "a file is damaged"};
  EXPECT_EQ(CheckFirstLoad(load), absl::OutOfRangeError("a file is damaged"));
  load.restarts = 1;
  load.lost = "something else";
  EXPECT_EQ(CheckFirstLoad(load), absl::OutOfRangeError("a file is damaged"));
  load.server = 1;
  EXPECT_TRUE(CheckFirstLoad(load).ok()) << "another server of the job";
  load.server = 0;
  load.job_id = "two";
  EXPECT_TRUE(CheckFirstLoad(load).ok()) << "the words are of another job";
  load = {.directory = dir.path(), .job_id = "one"};
  EXPECT_TRUE(CheckFirstLoad(load).ok()) << "the rows are there again";
}

TEST(WholeTablesTest, AJobThatHasCountedSamplesReadsThemAgain) {
  const TestDir dir;
  EXPECT_TRUE(
      CheckFirstLoad(
          {.directory = dir.path(), .job_id = "one", .counted = 1, .lost = "a file is damaged"})
          .ok());
}

}  // namespace
}  // namespace paceline::server
