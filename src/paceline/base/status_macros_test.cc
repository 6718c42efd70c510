#include "paceline/base/status_macros.h"

#include <gtest/gtest.h>

#include <memory>

namespace paceline {
namespace {

absl::StatusOr<std::unique_ptr<int>> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return std::make_unique<int>(n / 2);
}

absl::StatusOr<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> half, Half(n));
  ASSIGN_OR_RETURN(const std::unique_ptr<int> quarter, Half(*half));
  return *quarter;
}

absl::Status Divisible(int n) {
  RETURN_IF_ERROR(Quarter(n));
  RETURN_IF_ERROR(absl::OkStatus());
  return absl::OkStatus();
}

TEST(StatusMacrosTest, PassesValuesAndErrorsOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Text(Quarter(6).status()), "odd");
  EXPECT_TRUE(Divisible(4).ok());
  EXPECT_EQ(Divisible(2).code(), absl::StatusCode::kInvalidArgument);
}

TEST(StatusMacrosTest, AnnotateKeepsTheCode) {
  EXPECT_TRUE(Annotate(absl::OkStatus(), "reading").ok());
  const absl::Status status = Annotate(absl::DataLossError("short"), "reading x");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Text(status), "reading x: short");
}

}  // namespace
}  // namespace paceline
