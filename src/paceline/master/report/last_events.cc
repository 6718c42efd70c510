#include "paceline/master/report/last_events.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

namespace paceline::master {
namespace {

// What `paceline why` reads of an incident.
bool IsOfIncident(const core::Record& record) {
  constexpr std::array<std::string_view, 13> kKinds = {
      "rank_failed",   "node_lost",        "node_left",    "node_noticed", "node_evicted",
      "hang_judged",   "recovery_decided", "stop_decided", "world_ended",  "world_formed",
      "world_running", "restore_decided",  "hang_ended"};
  return std::find(kKinds.begin(), kKinds.end(), core::FactName(record.fact)) != kKinds.end();
}

}  // namespace

void LastEvents::Fold(const core::Record& record) {
  // One a minute, of which nothing but goodput reads: they would displace all others.
  if (std::holds_alternative<core::TimeAccounted>(record.fact)) return;
  newest_.push_back(record);
  if (newest_.size() <= kNewestMax) return;
  if (IsOfIncident(newest_.front())) of_incidents_.push_back(std::move(newest_.front()));
  newest_.pop_front();
  if (of_incidents_.size() > kOfIncidentsMax) of_incidents_.pop_front();
}

std::vector<wire::JobEvent> LastEvents::Rows(const NodeNames& names) const {
  std::vector<wire::JobEvent> rows;
  for (const auto* records : {&of_incidents_, &newest_}) {
    for (const core::Record& record : *records) rows.push_back(MakeJobEvent(record, names));
  }
  return rows;
}

}  // namespace paceline::master
