#include "paceline/master/notify/notice.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "paceline/base/text.h"
#include "paceline/base/utf8.h"

namespace paceline::master {
namespace {

constexpr size_t kNoticeTextMax = 2000;  // of a sentence, which may quote an exception

}  // namespace

struct NoticeSieve::Visitor {
  NoticeSieve& sieve;
  using Kind = std::optional<NoticeKind>;

  Kind TellFailure() {
    sieve.is_recovering_ = true;
    if (std::exchange(sieve.has_told_, true)) return std::nullopt;
    return NoticeKind::kFailure;
  }
  Kind operator()(const core::WorldFormed& fact) {
    sieve.seated_.clear();
    for (const Seat& seat : fact.world.seats) sieve.seated_.insert(seat.node);
    sieve.has_told_ = false;
    return std::nullopt;
  }
  Kind operator()(const core::RankFailed&) { return TellFailure(); }
  // A spare that is lost costs no step.
  Kind operator()(const core::NodeLost& fact) {
    if (fact.finished || !sieve.seated_.contains(fact.node)) return std::nullopt;
    return TellFailure();
  }
  Kind operator()(const core::WorldRunning&) {
    if (!std::exchange(sieve.is_recovering_, false)) return std::nullopt;
    return NoticeKind::kRecovery;
  }
  Kind operator()(const core::HangJudged&) { return NoticeKind::kHang; }
  Kind operator()(const core::HangEnded&) { return NoticeKind::kHangEnded; }
  Kind operator()(const core::JobFinished&) {
    sieve.is_recovering_ = false;
    return NoticeKind::kStop;
  }
  template <class Fact>
  Kind operator()(const Fact&) {
    return std::nullopt;
  }
};

std::string_view NoticeKindName(NoticeKind kind) {
  switch (kind) {
    case NoticeKind::kFailure: return "failure";
    case NoticeKind::kHang: return "hang";
    case NoticeKind::kHangEnded: return "hang_ended";
    case NoticeKind::kRecovery: return "recovery";
    case NoticeKind::kStop: return "stop";
  }
  return "";
}

std::optional<NoticeKind> NoticeSieve::Fold(const core::Record& record) {
  return std::visit(Visitor{*this}, record.fact);
}

nlohmann::ordered_json MakeNotice(const NoticeOf& of, const wire::JobEvent& event) {
  nlohmann::ordered_json notice = {
      {"schema", "paceline.notice/1"},
      {"kind", NoticeKindName(of.kind)},
      {"job", of.job_id},
      {"name", CleanText(of.name)},
      {"run_dir", CleanText(of.run_dir)},
      {"event", event.seq},
      {"time", static_cast<double>(event.time_ns) / 1e9},
      {"sentence", CleanText(event.sentence.substr(0, kNoticeTextMax))},
      {"node", nullptr},
      {"rank", nullptr},
      {"generation", nullptr},
      {"step", nullptr},
      {"exit_code", nullptr}};
  if (!event.node.empty()) notice["node"] = CleanText(event.node);
  if (event.rank.has_value()) notice["rank"] = *event.rank;
  if (event.generation > 0) notice["generation"] = event.generation;
  if (event.step.has_value()) notice["step"] = *event.step;
  if (of.exit_code.has_value()) notice["exit_code"] = *of.exit_code;
  return notice;
}

}  // namespace paceline::master
