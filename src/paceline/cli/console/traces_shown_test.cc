#include "paceline/cli/console/traces_shown.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline::cli {
namespace {

constexpr const char* kBadBatch =
    "Traceback (most recent call last):\n  File \"t.py\", line 3\n    step()\n"
    "ValueError: bad batch\n";

class TracesShownTest : public ::testing::Test {
 protected:
  void Show(uint64_t generation, uint32_t rank, std::initializer_list<std::string> lines) {
    for (const std::string& line : lines) shown_.Add({"node0", rank, true, line, generation});
  }
  TracesShown shown_;
};

TEST_F(TracesShownTest, AWholeTraceIsShownAlsoBehindTorchsPrefix) {
  Show(1, 1,
       {"[rank1]: Traceback (most recent call last):", "[rank1]:   File \"t.py\", line 3",
        "[rank1]:     step()", "[rank1]: ValueError: bad batch"});
  EXPECT_TRUE(shown_.Has(1, 1, kBadBatch));
  EXPECT_FALSE(shown_.Has(1, 0, kBadBatch));
  EXPECT_FALSE(shown_.Has(2, 1, kBadBatch));
}

TEST_F(TracesShownTest, AFoldedTraceAndAnotherOneOfTheRankAreNot) {
  Show(1, 0, {"ValueError: bad batch  (its trace: paceline logs --rank 0 --generation 1)"});
  EXPECT_FALSE(shown_.Has(1, 0, kBadBatch));
  Show(1, 1,
       {"Traceback (most recent call last):", "  File \"t.py\", line 9", "KeyError: 'caught'",
        "goes on"});
  EXPECT_FALSE(shown_.Has(1, 1, kBadBatch));
  EXPECT_FALSE(shown_.Has(1, 1, ""));
}

TEST_F(TracesShownTest, TheLastOfSeveralTracesCounts) {
  Show(1, 1,
       {"Traceback (most recent call last):", "  File \"t.py\", line 9", "KeyError: 'caught'",
        "Traceback (most recent call last):", "  File \"t.py\", line 3", "ValueError: bad batch"});
  EXPECT_TRUE(shown_.Has(1, 1, kBadBatch));
}

}  // namespace
}  // namespace paceline::cli
