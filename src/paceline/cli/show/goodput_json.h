#pragma once

// Where the rank-seconds of a job went, as commands and pages tell it. Pure.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/goodput/ledger.h"
#include "paceline/core/record.h"

namespace paceline::cli {

struct TimeAccount {
  core::GoodputReport report;
  bool is_over = false;
  std::map<uint64_t, const core::Record*> records;  // the causes of the incidents, by seq
};

// `records` are all of the job, and outlive the account.
TimeAccount AccountOfTime(const std::vector<core::Record>& records, Instant now);

// The record that a person should read about an incident: its first cause, if the journal has it.
const core::Record* ToldRecord(const TimeAccount& account, const core::IncidentCost& incident);

// docs/schemas/goodput.json
nlohmann::ordered_json GoodputJson(const std::string& job, const TimeAccount& account);

}  // namespace paceline::cli
