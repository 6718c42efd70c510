#include "paceline/agent/logs/log_tender.h"

#include <optional>
#include <set>
#include <utility>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/log.h"

namespace paceline::agent {

LogTender::LogTender(const RankLogs& logs, std::string error_dir)
    : logs_(logs), error_dir_(std::move(error_dir)) {}

LogTender::~LogTender() {
  if (thread_.joinable()) thread_.join();
}

bool LogTender::Begin(Round round) {
  if (is_busy_.exchange(true)) return false;
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread([this, round = std::move(round)] {
    Tend(round);
    is_busy_ = false;
  });
  return true;
}

void LogTender::Tend(const Round& round) {
  logs_.Trim(round.generation);
  std::set<uint64_t> in_use;
  for (const LoggedRank& rank : round.ranks) in_use.insert(rank.generation);
  // Tasks have generations of their own.
  for (const uint64_t generation : in_use) logs_.Trim(generation);
  logs_.KeepTotal(round.generation, in_use);
  ReserveErrorRoom(error_dir_);
  const auto full = disk_.Look(MonotonicNow(), DiskWatch::FreeBytes(logs_.directory()));
  if (!full.has_value()) return;
  LogInfo("disk_was_full", {{"seconds", full->seconds()}});
  const std::string note = FullDiskNote(*full);
  for (const LoggedRank& rank : round.ranks) logs_.Note(rank.generation, rank.rank, note);
}

}  // namespace paceline::agent
