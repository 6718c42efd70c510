#include "paceline/master/page/page_desk.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "paceline/base/log.h"

namespace paceline::master {
namespace {

constexpr std::chrono::seconds kAnswerMax{5};   // of the loop and of the journal
constexpr uint64_t kPageRead = UINT64_MAX - 1;  // no watcher has this number
constexpr uint32_t kReadCountMax = 500;         // a read delays the journal's commits
constexpr int kRestPerWork = 9;                 // the page takes at most a tenth of a core
constexpr std::chrono::seconds kRestMax{5};
constexpr int kPageNice = 10;  // the page never goes before the job

// What the loop answers, for a desk that may no longer wait for it.
struct StatusSlot {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<wire::JobStatus> status;
};

}  // namespace

PageDesk::PageDesk(PageMaker maker, EventQueue* queue, Journal* journal)
    : maker_(std::move(maker)), queue_(queue), journal_(journal) {
  thread_ = std::thread([this] { Work(); });
}

PageDesk::~PageDesk() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PageDesk::Ask(Reply reply) {
  {
    const std::lock_guard lock(mutex_);
    asked_.push_back(std::move(reply));
  }
  changed_.notify_all();
}

bool PageDesk::Take(RecordsRead* read) {
  if (read->request != kPageRead) return false;
  {
    const std::lock_guard lock(mutex_);
    read_ = std::move(*read);
  }
  changed_.notify_all();
  return true;
}

void PageDesk::Work() {
  setpriority(PRIO_PROCESS, 0, kPageNice);  // of this thread, on Linux
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_ending_ || !asked_.empty(); });
    if (is_ending_) return;
    const std::vector<Reply> asked = std::exchange(asked_, {});
    lock.unlock();
    const auto began = std::chrono::steady_clock::now();
    const std::string data = Make();
    for (const Reply& reply : asked) reply(data);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
    const auto rest = std::min<std::chrono::nanoseconds>(took * kRestPerWork, kRestMax);
    lock.lock();
    changed_.wait_for(lock, rest, [&] { return is_ending_; });
  }
}

std::string PageDesk::Make() {
  const std::optional<wire::JobStatus> status = AskStatus();
  if (!status.has_value()) return "";
  ReadNew();
  return maker_.data(*status, records_);
}

std::optional<wire::JobStatus> PageDesk::AskStatus() {
  const auto slot = std::make_shared<StatusSlot>();  // owners: this function, the event
  const bool taken = queue_->TryPost(BriefAsked{[slot](wire::JobStatus status) {
    const std::lock_guard lock(slot->mutex);
    slot->status = std::move(status);
    slot->changed.notify_all();
  }});
  if (!taken) return std::nullopt;
  const auto until = std::chrono::steady_clock::now() + kAnswerMax;
  while (std::chrono::steady_clock::now() < until) {
    {
      std::unique_lock lock(slot->mutex);
      const auto is_there = [&] { return slot->status.has_value(); };
      if (slot->changed.wait_for(lock, std::chrono::milliseconds(50), is_there)) {
        return std::move(slot->status);
      }
    }
    const std::lock_guard lock(mutex_);
    if (is_ending_) return std::nullopt;
  }
  return std::nullopt;
}

// Only the records that are new since the last time. If the journal does not answer, the page shows
// what is known.
void PageDesk::ReadNew() {
  while (true) {
    std::unique_lock lock(mutex_);
    read_.reset();
    lock.unlock();
    const uint64_t from = records_.empty() ? 1 : records_.back().seq.value() + 1;
    journal_->Read(kPageRead, RecordSeq(from), kReadCountMax);
    lock.lock();
    const auto is_there = [&] { return is_ending_ || read_.has_value(); };
    if (!changed_.wait_for(lock, kAnswerMax, is_there) || !read_.has_value()) return;
    if (!read_->status.ok()) {
      LogError("page_read", {{"why", read_->status}});
      return;
    }
    const size_t count = read_->records.size();
    for (core::Record& record : read_->records) records_.push_back(std::move(record));
    if (count < kReadCountMax) return;
  }
}

}  // namespace paceline::master
