// The journal on real files: acknowledged records are read back, whatever happened to the file's
// end.

#include "paceline/master/journal/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <optional>

#include "gtest/gtest.h"
#include "paceline/base/prng.h"
#include "paceline/base/test_tmpfs.h"
#include "paceline/master/journal/journal_file.h"
#include "paceline/model/problem.h"
#include "paceline/wire/codec/journal_codec.h"
#include "sqlite3.h"

namespace paceline::master {
namespace {

namespace fs = std::filesystem;

// The journal's answers, for which the test's thread can wait.
class Answers {
 public:
  Journal::Sink sink() {
    return [this](JournalEvent event) {
      const std::lock_guard lock(mutex_);
      if (const auto* durable = std::get_if<RecordsDurable>(&event)) durable_ = durable->last;
      if (std::holds_alternative<JournalFailed>(event)) ++failures_;
      if (auto* read = std::get_if<RecordsRead>(&event)) read_ = std::move(*read);
      changed_.notify_all();
    };
  }
  bool WaitDurable(uint64_t seq) {
    return Wait([&] { return durable_ >= RecordSeq(seq); });
  }
  bool WaitFailures(int count) {
    return Wait([&] { return failures_ >= count; });
  }
  std::optional<RecordsRead> WaitRead() {
    Wait([&] { return read_.has_value(); });
    return std::exchange(read_, std::nullopt);
  }
  RecordSeq durable() {
    const std::lock_guard lock(mutex_);
    return durable_;
  }

 private:
  template <class Condition>
  bool Wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), condition);
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  RecordSeq durable_;
  int failures_ = 0;
  std::optional<RecordsRead> read_;
};

core::Record MakeRecord(uint64_t seq, size_t bytes = 20) {
  return {.seq = RecordSeq(seq),
          .at = Instant::FromNanoseconds(static_cast<int64_t>(seq) * 1000),
          .causes = seq > 1 ? std::vector<RecordSeq>{RecordSeq(1), RecordSeq(seq - 1)}
                            : std::vector<RecordSeq>{},
          .fact = core::WaitBegan{std::string(bytes, 'a' + static_cast<char>(seq % 26))}};
}

void ExpectRecord(const core::Record& record, uint64_t seq) {
  const core::Record expected = MakeRecord(seq);
  EXPECT_EQ(record.seq, expected.seq);
  EXPECT_EQ(record.at, expected.at);
  EXPECT_EQ(record.causes, expected.causes);
  EXPECT_EQ(wire::EncodeFact(record.fact), wire::EncodeFact(expected.fact));
}

std::string CodeOf(const absl::Status& status) {
  const auto problem = ProblemOf(status);
  return problem.has_value() ? problem->code : std::string(status.message());
}

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(testing::TempDir()) /
           ("journal-" + std::to_string(getpid()) + "-" +
            testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string Path() const { return dir_ / "journal.db"; }

  absl::StatusOr<std::vector<core::Record>> OpenAndRead(const std::string& path) {
    std::vector<core::Record> records;
    const auto journal = Journal::Open({.path = path}, &records);
    if (!journal.ok()) return journal.status();
    return records;
  }

  // Writes records 1 … count, each in its own transaction, and copies the files as a crash would
  // leave them.
  void WriteAndCopy(uint64_t count, const fs::path& to) {
    std::vector<core::Record> records;
    Answers answers;
    auto journal = Journal::Open({.path = Path()}, &records);
    ASSERT_TRUE(journal.ok()) << journal.status();
    (*journal)->Start(answers.sink());
    for (uint64_t seq = 1; seq <= count; ++seq) {
      (*journal)->Append({MakeRecord(seq)});
      ASSERT_TRUE(answers.WaitDurable(seq));
    }
    fs::create_directories(to);
    fs::copy_file(Path(), to / "journal.db");
    fs::copy_file(Path() + "-wal", to / "journal.db-wal");
  }

  fs::path dir_;
};

TEST_F(JournalTest, WhatIsDurableComesBack) {
  for (uint64_t run = 0; run < 3; ++run) {
    std::vector<core::Record> records;
    Answers answers;
    auto journal = Journal::Open({.path = Path()}, &records);
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_EQ(records.size(), run * 100);
    for (const core::Record& record : records) ExpectRecord(record, record.seq.value());
    (*journal)->Start(answers.sink());
    for (uint64_t i = 1; i <= 100; ++i) (*journal)->Append({MakeRecord(run * 100 + i)});
    ASSERT_TRUE(answers.WaitDurable(run * 100 + 100));
  }
  const auto offline = ReadJournal(Path());
  ASSERT_TRUE(offline.ok()) << offline.status();
  EXPECT_EQ(offline->size(), 300u);
  EXPECT_EQ(ReadJournal(Path() + "x").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(JournalTest, TheFolderMayBeALinkAndTheFileMayNot) {
  const std::string link = dir_ / "link";
  fs::create_directory(dir_ / "real");
  fs::create_directory_symlink("real", link);
  std::vector<core::Record> records;
  {
    auto journal = Journal::Open({.path = link + "/journal.db"}, &records);
    ASSERT_TRUE(journal.ok()) << journal.status();
  }
  EXPECT_TRUE(ReadJournal(link + "/journal.db").ok());
  for (const auto& entry : fs::directory_iterator(dir_ / "real")) {
    EXPECT_EQ(fs::status(entry).permissions(), fs::perms::owner_read | fs::perms::owner_write)
        << entry.path();
  }
  fs::create_symlink(dir_ / "real/journal.db", dir_ / "other.db");
  EXPECT_FALSE(Journal::Open({.path = dir_ / "other.db"}, &records).ok());
}

TEST_F(JournalTest, APipeInItsPlaceIsRefused) {
  ASSERT_EQ(::mkfifo((dir_ / "pipe.db").c_str(), 0600), 0);
  EXPECT_EQ(ReadJournal(dir_ / "pipe.db").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(JournalTest, PagesAreReadWhileItIsWritten) {
  std::vector<core::Record> records;
  Answers answers;
  auto journal = Journal::Open({.path = Path()}, &records);
  ASSERT_TRUE(journal.ok());
  (*journal)->Start(answers.sink());
  for (uint64_t seq = 1; seq <= 50; ++seq) (*journal)->Append({MakeRecord(seq)});
  ASSERT_TRUE(answers.WaitDurable(50));
  (*journal)->Read(7, RecordSeq(11), 20);
  const auto read = answers.WaitRead();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->request, 7u);
  ASSERT_EQ(read->records.size(), 20u);
  ExpectRecord(read->records.front(), 11);
  // A command reads the same file beside the running master.
  EXPECT_EQ(ReadJournal(Path())->size(), 50u);
}

TEST_F(JournalTest, AnEndingJournalCommitsWhatItWasGiven) {
  {
    std::vector<core::Record> records;
    Answers answers;
    auto journal = Journal::Open({.path = Path()}, &records);
    ASSERT_TRUE(journal.ok());
    (*journal)->Start(answers.sink());
    for (uint64_t seq = 1; seq <= 200; ++seq) (*journal)->Append({MakeRecord(seq)});
  }
  EXPECT_EQ(OpenAndRead(Path())->size(), 200u);
}

// A crash may truncate the log of the last transactions anywhere. The result must be a prefix of
// the records, never an error. Tries every byte of the last two transactions, and a sample of the
// others.
TEST_F(JournalTest, ATruncatedTailLosesOnlyTheTail) {
  const fs::path crashed = dir_ / "crashed";
  WriteAndCopy(12, crashed);
  const std::string db = crashed / "journal.db";
  const auto size = fs::file_size(db + "-wal");
  std::ifstream wal_file(db + "-wal", std::ios::binary);
  const std::string wal((std::istreambuf_iterator<char>(wal_file)), {});
  ASSERT_EQ(wal.size(), size);
  const std::string work = dir_ / "work.db";
  size_t last_count = 0;
  constexpr size_t kFrame = 4096 + 24;
  for (size_t cut = 0; cut <= size; cut += (size - cut < 2 * kFrame ? 97 : 1531)) {
    fs::copy_file(db, work, fs::copy_options::overwrite_existing);
    std::ofstream(work + "-wal", std::ios::binary | std::ios::trunc) << wal.substr(0, cut);
    fs::remove(work + "-shm");
    const auto records = OpenAndRead(work);
    ASSERT_TRUE(records.ok()) << records.status() << " cut at " << cut;
    ASSERT_LE(records->size(), 12u);
    ASSERT_GE(records->size(), last_count) << "a longer log holds no fewer records";
    for (size_t i = 0; i < records->size(); ++i) ExpectRecord((*records)[i], i + 1);
    last_count = records->size();
    fs::remove(work + "-wal");
  }
  fs::copy_file(db, work, fs::copy_options::overwrite_existing);
  std::ofstream(work + "-wal", std::ios::binary | std::ios::trunc) << wal;
  EXPECT_EQ(OpenAndRead(work)->size(), 12u) << "uncut, nothing is lost";
}

TEST_F(JournalTest, ATornPageLosesOnlyTheTail) {
  const fs::path crashed = dir_ / "crashed";
  WriteAndCopy(12, crashed);
  const std::string db = crashed / "journal.db";
  std::ifstream wal_file(db + "-wal", std::ios::binary);
  const std::string wal((std::istreambuf_iterator<char>(wal_file)), {});
  const std::string work = dir_ / "work.db";
  Prng prng(9);
  for (int i = 0; i < 100; ++i) {
    std::string torn = wal;
    // The end of the last frame has the file's former bytes.
    const size_t from = wal.size() - 1 - prng.Below(4096);
    for (size_t at = from; at < torn.size(); ++at) torn[at] = static_cast<char>(prng.Below(256));
    fs::copy_file(db, work, fs::copy_options::overwrite_existing);
    std::ofstream(work + "-wal", std::ios::binary | std::ios::trunc) << torn;
    fs::remove(work + "-shm");
    const auto records = OpenAndRead(work);
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_EQ(records->size(), 11u);
    for (size_t k = 0; k < records->size(); ++k) ExpectRecord((*records)[k], k + 1);
    fs::remove(work + "-wal");
  }
}

// Kills a real process at random: all records that were reported durable are there.
TEST_F(JournalTest, KilledAtAnyTime) {
  Prng prng(3);
  for (int round = 0; round < 10; ++round) {
    int told[2];
    ASSERT_EQ(pipe2(told, O_CLOEXEC), 0);
    const auto before = OpenAndRead(Path());
    ASSERT_TRUE(before.ok()) << before.status();
    const uint64_t first = before->size() + 1;
    const pid_t child = fork();
    if (child == 0) {
      std::vector<core::Record> records;
      auto journal = Journal::Open({.path = Path()}, &records);
      if (!journal.ok()) _exit(1);
      (*journal)->Start([&](JournalEvent event) {
        const auto* durable = std::get_if<RecordsDurable>(&event);
        const uint64_t last = durable == nullptr ? 0 : durable->last.value();
        if (write(told[1], &last, sizeof(last)) != sizeof(last)) _exit(1);
      });
      for (uint64_t seq = first;; ++seq) {
        (*journal)->Append({MakeRecord(seq)});
        if (seq % 3 == 0) usleep(1000);
      }
    }
    close(told[1]);
    uint64_t last = 0;
    const uint64_t enough = first + prng.Below(30);
    while (last < enough && read(told[0], &last, sizeof(last)) == sizeof(last)) {
    }
    kill(child, SIGKILL);
    for (uint64_t more = 0; read(told[0], &more, sizeof(more)) == sizeof(more);) last = more;
    close(told[0]);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const auto after = OpenAndRead(Path());
    ASSERT_TRUE(after.ok()) << after.status();
    ASSERT_GE(after->size(), last) << "an acknowledged record is lost";
    for (size_t i = 0; i < after->size(); ++i) ExpectRecord((*after)[i], i + 1);
  }
}

TEST_F(JournalTest, AFullDiskDelaysAndLosesNothing) {
  std::atomic<int64_t> pages_max = 20;
  std::vector<core::Record> records;
  Answers answers;
  auto journal = Journal::Open({.path = Path(),
                                .retry_after = Duration::Milliseconds(5),
                                .pages_max = [&] { return pages_max.load(); }},
                               &records);
  ASSERT_TRUE(journal.ok()) << journal.status();
  (*journal)->Start(answers.sink());
  for (uint64_t seq = 1; seq <= 100; ++seq) (*journal)->Append({MakeRecord(seq, 4000)});
  ASSERT_TRUE(answers.WaitFailures(3)) << "it tries again and again";
  const uint64_t durable = answers.durable().value();
  EXPECT_LT(durable, 100u);
  EXPECT_EQ(ReadJournal(Path())->size(), durable) << "only what was told is there";
  pages_max = 1'000'000;
  ASSERT_TRUE(answers.WaitDurable(100));
  EXPECT_EQ(ReadJournal(Path())->size(), 100u);
}

// Ranks may fill the disk. The records of the failure that follows have room all the same.
TEST_F(JournalTest, SomeRecordsHaveRoomOnAFullDisk) {
  const SmallTmpfs disk(dir_, "2m");
  if (!disk.is_there()) GTEST_SKIP() << "FULL DISK NOT TESTED: mounting needs root";
  {
    std::vector<core::Record> records;
    Answers answers;
    auto journal = Journal::Open({.path = Path()}, &records);
    ASSERT_TRUE(journal.ok()) << journal.status();
    (*journal)->Start(answers.sink());
    (*journal)->Append({MakeRecord(1)});
    ASSERT_TRUE(answers.WaitDurable(1));
    std::ofstream(dir_ / "output") << std::string(4 << 20, 'x');
    ASSERT_EQ(fs::space(dir_).available, 0u);
    for (uint64_t seq = 2; seq <= 20; ++seq) {
      (*journal)->Append({MakeRecord(seq)});
      ASSERT_TRUE(answers.WaitDurable(seq)) << seq;
    }
  }
  EXPECT_EQ(ReadJournal(Path())->size(), 20u);
}

TEST_F(JournalTest, ADamagedFileIsNotGuessedAt) {
  WriteAndCopy(3, dir_ / "copy");
  std::ofstream(dir_ / "bad.db") << std::string(8192, 'x');
  EXPECT_EQ(CodeOf(OpenAndRead(dir_ / "bad.db").status()), "PL-E034");
}

// SQLite reads the missing part as zeros and finds no record at all.
TEST_F(JournalTest, ACutOffFileIsNoEmptyJournal) {
  WriteAndCopy(7, dir_ / "copy");
  const std::string work = dir_ / "work.db";
  for (const size_t size : {100, 4096, 5000, 6000}) {
    fs::copy_file(Path(), work, fs::copy_options::overwrite_existing);
    fs::resize_file(work, size);
    EXPECT_EQ(CodeOf(ReadJournal(work).status()), "PL-E034") << size;
    EXPECT_EQ(CodeOf(OpenAndRead(work).status()), "PL-E034") << size;
  }
}

TEST_F(JournalTest, AnotherTableOrAHugeRowIsDamage) {
  WriteAndCopy(7, dir_ / "copy");
  for (const char* change :
       {"UPDATE records SET payload = zeroblob(20000000) WHERE seq = 3", "DROP TABLE records",
        // Without end, if it is asked.
        "CREATE VIEW records AS WITH RECURSIVE n(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n)"
        " SELECT seq, 0 AS at_ns, 0 AS wall_ns, '' AS kind, '' AS causes, x'' AS payload FROM n"
        " WHERE seq < 0"}) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(Path().c_str(), &db), SQLITE_OK);
    EXPECT_TRUE(Execute(db, Path(), change).ok());
    sqlite3_close(db);
    EXPECT_EQ(CodeOf(ReadJournal(Path()).status()), "PL-E034") << change;
  }
}

TEST_F(JournalTest, TwoMastersDoNotShareIt) {
  std::vector<core::Record> records;
  const auto first = Journal::Open({.path = Path()}, &records);
  ASSERT_TRUE(first.ok());
  const auto second = Journal::Open({.path = Path()}, &records);
  EXPECT_EQ(CodeOf(second.status()), "PL-E035");
  EXPECT_NE(ProblemOf(second.status())->why.find(std::to_string(getpid())), std::string::npos);
}

TEST_F(JournalTest, AReadOnlyDirectoryIsAnErrorAtOnce) {
  if (geteuid() == 0) {
    // Root may write despite the mode; a missing directory takes the same code path.
    EXPECT_EQ(CodeOf(OpenAndRead(dir_ / "no" / "journal.db").status()), "PL-E032");
    return;
  }
  fs::permissions(dir_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(CodeOf(OpenAndRead(Path()).status()), "PL-E032");
  fs::permissions(dir_, fs::perms::owner_all);
}

TEST(JournalCauses, SurviveAndAreBounded) {
  Prng prng(4);
  for (int i = 0; i < 1000; ++i) {
    std::vector<RecordSeq> causes;
    for (uint64_t k = prng.Below(6); k > 0; --k) causes.emplace_back(prng.Below(1u << 30));
    EXPECT_EQ(*DecodeCauses(EncodeCauses(causes)), causes);
    std::string text = EncodeCauses(causes) + " ";
    text[prng.Below(text.size())] = static_cast<char>(prng.Below(256));
    const auto decoded = DecodeCauses(text);
    EXPECT_TRUE(!decoded.ok() || decoded->size() <= causes.size() + 1);
  }
  EXPECT_FALSE(DecodeCauses("99999999999999999999999").ok());
}

}  // namespace
}  // namespace paceline::master
