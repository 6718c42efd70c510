#include "paceline/agent/rank_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <span>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/test_dir.h"
#include "paceline/model/progress_page.h"

namespace paceline::agent {
namespace {

// A page with one slot, written by a starter.
class RankTableTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = dir_.path() + "/page";
    auto page = PageFile::AdoptOrMake(
        path, {.job_id = "job", .node = "node0", .boot_id = BootId(), .slot_count = 1});
    ASSERT_TRUE(page.ok());
    page_ = *std::move(page);
    reactor_ = *Reactor::Create();
    const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    void* mapped = ::mmap(nullptr, PageBytes(1), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    starters_ = static_cast<PageHeader*>(mapped);
  }
  void TearDown() override { ::munmap(starters_, PageBytes(1)); }

  RankTableSetup TableSetup() const {
    RankTableSetup setup;
    setup.files = {dir_.path(), "node0"};
    return setup;
  }

  TestDir dir_;
  std::unique_ptr<PageFile> page_;
  std::unique_ptr<Reactor> reactor_;
  PageHeader* starters_ = nullptr;
};

// The rank lived when it was found; then its starter reports its end.
TEST_F(RankTableTest, AnEndIsToldAfterTheRankWasAdded) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(3);
  const uint64_t began = StartTimeOf(pid);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  PageSlot& slot = SlotOf(*starters_, 0);
  slot.pid = pid;
  slot.start_time_ticks = began;
  slot.generation = 7;
  slot.wait_status = status;
  slot.exit_recorded = 1;
  slot.attempt = 1;

  std::vector<core::RankEnded> ends;
  RankTable table(*reactor_, *page_, TableSetup(), [&](const core::RankEnded& ended, const auto&) {
    ends.push_back(ended);
    reactor_->Stop();
  });
  RankReport rank;
  rank.generation = Generation(7);
  rank.pid = pid;
  table.Add(rank, began);
  EXPECT_TRUE(ends.empty()) << "nobody has heard yet that it lives";
  reactor_->Run();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].pid, pid);
  EXPECT_EQ(ends[0].generation, Generation(7));
  EXPECT_EQ(ends[0].cause.headline, "exited with code 3");
  EXPECT_TRUE(table.is_empty());
}

// Replies for a slot's earlier rank must not end the next one.
TEST_F(RankTableTest, ASlotsNextRankStandsForItself) {
  std::vector<core::RankEnded> ends;
  RankTable table(*reactor_, *page_, TableSetup(),
                  [&](const core::RankEnded& ended, const auto&) { ends.push_back(ended); });
  RankReport gone;
  gone.generation = Generation(1);
  gone.pid = ::getpid();
  table.Add(gone, StartTimeOf(::getpid()) + 1);  // its pid has another start time now
  RankReport next;
  next.generation = Generation(2);
  next.pid = ::getpid();
  table.Add(next, StartTimeOf(::getpid()));
  reactor_->CallAt(MonotonicNs() + 600'000'000, [this] { reactor_->Stop(); });
  reactor_->Run();
  EXPECT_TRUE(ends.empty());
  EXPECT_FALSE(table.is_empty());
}

// A ring of the world 7 whose rank has read data for four seconds, and computes since `since_ns`.
void WriteRingWithTimes(const std::string& path, int64_t since_ns) {
  std::vector<uint64_t> words(kRingBytes / sizeof(uint64_t));
  FormatRing(std::as_writable_bytes(std::span(words)), 7, 3, 77);
  auto& ring = *reinterpret_cast<RingHeader*>(words.data());
  ring.spent_since_ns = since_ns - 4'000'000'000;
  ring.phase_since_ns = since_ns;
  ring.spent_ns[static_cast<size_t>(RankPhase::kData)] = 4'000'000'000;
  ring.phase = RankPhase::kForward;
  std::ofstream(path).write(reinterpret_cast<const char*>(words.data()), kRingBytes);
}

TEST_F(RankTableTest, TellsTheTimesOfALivingRankOnceASecond) {
  const FlightRings rings({dir_.path() + "/memory", "node0", "5eed"});
  RankTableSetup setup = TableSetup();
  setup.rings = &rings;
  RankTable table(*reactor_, *page_, setup, [](const core::RankEnded&, const auto&) {});
  RankReport rank;
  rank.generation = Generation(7);
  rank.rank = Rank(3);
  rank.pid = ::getpid();
  table.Add(rank, StartTimeOf(::getpid()));
  std::vector<RankSample> samples;
  std::vector<RankTimes> times;
  table.ReadRings(&samples, &times);
  EXPECT_TRUE(times.empty()) << "there is no ring";
  WriteRingWithTimes(rings.PathOf(0), MonotonicNs() - 2'000'000'000);
  table.ReadRings(&samples, &times);
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].rank, Rank(3));
  EXPECT_EQ(times[0].phase, RankPhase::kForward);
  EXPECT_EQ(times[0].times.of[static_cast<size_t>(RankPhase::kData)], Duration::Seconds(4));
  EXPECT_GE(times[0].times.of[static_cast<size_t>(RankPhase::kForward)], Duration::Seconds(2));
  EXPECT_FALSE(times[0].has_ended);
  EXPECT_TRUE(samples.empty()) << "no step is counted";
}

TEST_F(RankTableTest, TellsTheTimesOfARankUntilItsEndOnce) {
  const FlightRings rings({dir_.path() + "/memory", "node0", "5eed"});
  const int64_t since = MonotonicNs();
  WriteRingWithTimes(rings.PathOf(0), since);
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(3);
  const uint64_t began = StartTimeOf(pid);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  PageSlot& slot = SlotOf(*starters_, 0);
  slot.pid = pid;
  slot.start_time_ticks = began;
  slot.generation = 7;
  slot.wait_status = status;
  slot.exit_monotonic_ns = since + 1'500'000'000;
  slot.exit_recorded = 1;
  slot.attempt = 1;
  RankTableSetup setup = TableSetup();
  setup.rings = &rings;
  RankTable table(*reactor_, *page_, setup,
                  [&](const core::RankEnded&, const auto&) { reactor_->Stop(); });
  RankReport rank;
  rank.generation = Generation(7);
  rank.rank = Rank(3);
  rank.pid = pid;
  table.Add(rank, began);
  reactor_->Run();
  const auto last = table.TakeLastTimes(rank);
  ASSERT_TRUE(last.has_value());
  EXPECT_TRUE(last->has_ended);
  // It computed until its end, however late that is noticed.
  EXPECT_EQ(last->times.of[static_cast<size_t>(RankPhase::kForward)], Duration::Milliseconds(1500));
  EXPECT_FALSE(table.TakeLastTimes(rank).has_value());
}

}  // namespace
}  // namespace paceline::agent
