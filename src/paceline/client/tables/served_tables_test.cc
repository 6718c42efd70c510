#include "paceline/client/tables/served_tables.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "paceline/base/test_dir.h"

// How rows and pushes fare on real servers is tested in tests/tables.

namespace paceline::client {
namespace {

ps::TableSpec Ads() { return {.name = "ads", .dim = 2, .optimizer = {.name = "sgd"}}; }

TEST(ServedTablesTest, AServerThatStaysAwayEndsTheCallWithItsName) {
  const TestDir dir;
  auto tables = OpenServedTables(
      {.sockets = dir.path() + "/none", .job_id = "job", .patience = Duration::Milliseconds(50)});
  ASSERT_TRUE(tables.ok());
  Result<uint32_t> opened = (*tables)->Open(Ads());
  while (!opened.ok() && opened.failure().kind == FailureKind::kBusy) {
    opened = (*tables)->Open(Ads());
  }
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.failure().kind, FailureKind::kSystem);
  EXPECT_EQ(opened.failure().error_number, ETIMEDOUT);
  EXPECT_NE(opened.failure().message.find("ps-0 was away"), std::string::npos)
      << opened.failure().message;
}

TEST(ServedTablesTest, WhatNoServerCouldTakeIsRefusedWithoutOne) {
  EXPECT_FALSE(OpenServedTables({.sockets = "", .job_id = "job"}).ok());
  auto tables = OpenServedTables({.sockets = "/none", .job_id = "job"});
  ASSERT_TRUE(tables.ok());
  ps::TableSpec spec = Ads();
  spec.dim = 0;
  const Result<uint32_t> opened = (*tables)->Open(spec);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.failure().kind, FailureKind::kInvalid);
}

}  // namespace
}  // namespace paceline::client
