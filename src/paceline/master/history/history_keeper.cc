#include "paceline/master/history/history_keeper.h"

#include <chrono>
#include <utility>

#include "absl/status/statusor.h"
#include "paceline/base/log.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/master/history/history_file.h"

namespace paceline::master {
namespace {

std::chrono::nanoseconds ToChrono(Duration duration) {
  return std::chrono::nanoseconds(duration.nanoseconds());
}

}  // namespace

HistoryKeeper::HistoryKeeper(std::string folder, std::string signature)
    : shared_(std::make_shared<Shared>()),
      thread_([shared = shared_, folder = std::move(folder), signature = std::move(signature)] {
        Work(shared, folder, signature);
      }) {}

HistoryKeeper::~HistoryKeeper() {
  bool has_ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->is_ending = true;
    shared_->changed.notify_all();
    has_ended = shared_->changed.wait_for(lock, ToChrono(kEndPatience),
                                          [this] { return shared_->has_ended; });
  }
  if (has_ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

std::vector<JobHistory> HistoryKeeper::Earlier() {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, ToChrono(kReadPatience),
                            [this] { return shared_->earlier.has_value() || shared_->has_ended; });
  return shared_->earlier.value_or(std::vector<JobHistory>());
}

void HistoryKeeper::Put(JobHistory history) {
  const std::lock_guard lock(shared_->mutex);
  shared_->waiting = std::move(history);
  shared_->changed.notify_all();
}

void HistoryKeeper::Work(const std::shared_ptr<Shared>& shared, const std::string& folder,
                         const std::string& signature) {
  const absl::Status status = Serve(shared.get(), folder, signature);
  if (!status.ok()) {
    LogWarning("history_unusable", {{"why", Text(status)}, {"then", "the job does without"}});
  }
  const std::lock_guard lock(shared->mutex);
  shared->has_ended = true;
  shared->changed.notify_all();
}

absl::Status HistoryKeeper::Serve(Shared* shared, const std::string& folder,
                                  const std::string& signature) {
  ASSIGN_OR_RETURN(HistoryFile file, HistoryFile::Open(folder));
  ASSIGN_OR_RETURN(std::vector<JobHistory> earlier, file.Newest(signature, kRunsRead));
  std::unique_lock lock(shared->mutex);
  shared->earlier = std::move(earlier);
  shared->changed.notify_all();
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->waiting.has_value() || shared->is_ending; });
    if (!shared->waiting.has_value()) return absl::OkStatus();
    const JobHistory history = *std::exchange(shared->waiting, std::nullopt);
    lock.unlock();
    RETURN_IF_ERROR(file.Put(history));
    lock.lock();
  }
}

}  // namespace paceline::master
