#include "paceline/master/notify/notice_desk.h"

#include <optional>
#include <variant>

namespace paceline::master {

void NoticeDesk::Start(Notifier* notifier, std::string run_dir) {
  notifier_ = notifier;
  run_dir_ = std::move(run_dir);
}

void NoticeDesk::Add(const core::Record& record, const NodeNames& names, const JobSpec& spec) {
  const std::optional<NoticeKind> kind = sieve_.Fold(record);
  if (notifier_ == nullptr || !kind.has_value()) return;
  NoticeOf of{.kind = *kind, .job_id = spec.job_id, .name = spec.name, .run_dir = run_dir_};
  if (const auto* finished = std::get_if<core::JobFinished>(&record.fact)) {
    of.exit_code = finished->exit_code;
  }
  held_.emplace_back(record.seq, MakeNotice(of, MakeJobEvent(record, names)));
}

NoticeCounts NoticeDesk::counts() const {
  return notifier_ == nullptr ? NoticeCounts{} : notifier_->counts();
}

void NoticeDesk::SetDurable(RecordSeq last) {
  while (!held_.empty() && held_.front().first <= last) {
    notifier_->Post(std::move(held_.front().second));
    held_.pop_front();
  }
}

}  // namespace paceline::master
