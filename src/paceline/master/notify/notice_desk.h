#pragma once

// The loop's part of notices: chooses the records, and holds each notice until its record is
// durable, because only then is it a fact.

#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "paceline/core/record.h"
#include "paceline/master/notify/notice.h"
#include "paceline/master/notify/notifier.h"
#include "paceline/master/report/event_row.h"

namespace paceline::master {

class NoticeDesk {
 public:
  // The notifier must outlive the desk. Without one, nothing is told.
  void Start(Notifier* notifier, std::string run_dir);

  // A record of an earlier master, which has told of it.
  void Fold(const core::Record& record) { sieve_.Fold(record); }
  // A new one.
  void Add(const core::Record& record, const NodeNames& names, const JobSpec& spec);
  void SetDurable(RecordSeq last);
  NoticeCounts counts() const;

 private:
  Notifier* notifier_ = nullptr;
  std::string run_dir_;
  NoticeSieve sieve_;
  std::deque<std::pair<RecordSeq, nlohmann::ordered_json>> held_;  // not durable yet
};

}  // namespace paceline::master
