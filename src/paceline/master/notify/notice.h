#pragma once

// Which records of a job are worth a notice to its users, and the notice itself
// (docs/schemas/notice.json). A failure is told once a world: one lost switch may fail a thousand
// ranks. The recovery from it is told when the next world trains.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "paceline/core/record.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

enum class NoticeKind { kFailure, kHang, kHangEnded, kRecovery, kStop };
std::string_view NoticeKindName(NoticeKind kind);  // "failure", "hang_ended", …

class NoticeSieve {
 public:
  // Records in order of seq, with those of earlier masters. Returns the notice that the record is
  // worth.
  std::optional<NoticeKind> Fold(const core::Record& record);

 private:
  struct Visitor;

  std::set<NodeId> seated_;     // in the newest world
  bool has_told_ = false;       // a failure of that world
  bool is_recovering_ = false;  // a failure was told, and no world has trained since
};

struct NoticeOf {
  NoticeKind kind = NoticeKind::kFailure;
  std::string job_id;
  std::string name;
  std::string run_dir;
  std::optional<int> exit_code;  // of a stop
};
nlohmann::ordered_json MakeNotice(const NoticeOf& of, const wire::JobEvent& event);

}  // namespace paceline::master
