#include "paceline/cli/run/port_turn.h"

#include "gtest/gtest.h"
#include "paceline/base/test_dir.h"

namespace paceline::cli {
namespace {

using std::chrono::milliseconds;

TEST(PortTurn, OneAtATimeForEachPort) {
  const TestDir dir;
  Fd first = TakePortTurn(dir.path(), 29400, milliseconds(0));
  EXPECT_TRUE(first.is_open());
  EXPECT_TRUE(TakePortTurn(dir.path(), 29401, milliseconds(0)).is_open());
  EXPECT_FALSE(TakePortTurn(dir.path(), 29400, milliseconds(50)).is_open());
  first.Close();
  EXPECT_TRUE(TakePortTurn(dir.path(), 29400, milliseconds(0)).is_open());
}

TEST(PortTurn, WithoutAFolderThePortItselfMustDo) {
  EXPECT_FALSE(TakePortTurn("/dev/null", 29400, milliseconds(0)).is_open());
}

}  // namespace
}  // namespace paceline::cli
