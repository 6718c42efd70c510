#pragma once

// The master's metrics. One table (metric_table.cc) makes the OpenMetrics text and docs/metrics.md.
//
// No label has an unbounded value: a job of any size has the same series. So the number of a slow
// rank is a value, and its place among the slowest is the label.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/core/goodput/ledger.h"
#include "paceline/master/report/job_counts.h"
#include "paceline/wire/messages.h"

namespace paceline::master {

struct Counters {
  uint64_t events = 0;
  uint64_t records = 0;
  uint64_t effects = 0;
  uint64_t heartbeats = 0;
  uint64_t journal_failures = 0;
  Duration step_time;      // total time of decisions
  Duration step_time_max;  // longest single decision
  uint64_t effects_waiting = 0;
  uint64_t agents_connected = 0;
};

// Of the command of [notify], since this master started.
struct NoticeCounts {
  uint64_t done = 0;  // it ended with 0
  uint64_t failed = 0;
  uint64_t dropped = 0;  // notices that it never got
};

// What the metrics are made from.
struct MetricSource {
  wire::JobStatus status = {};  // MakeJobBrief is enough
  StateCounts counts = {};
  Counters counters = {};
  core::GoodputReport goodput = {};
  Instant last_step_at = {};  // that this master has heard of, or its own start
  Instant stored_at = {};     // of the newest checkpoint in storage; 0: none
  NoticeCounts notices = {};
};

enum class MetricType { kGauge, kCounter };

struct MetricRow {
  std::string_view name;  // without the prefix paceline_ and a counter's suffix _total
  MetricType type = MetricType::kGauge;
  bool is_told = true;           // to a platform's operator
  std::string_view label = {};   // "": one series
  std::string_view values = {};  // of the label, divided by |
  std::string_view help;
  // Of the series with this value of the label.
  double (*value)(const MetricSource& source, std::string_view of);
};
std::span<const MetricRow> MetricTable();
// The values of the row's label; one empty text if it has no label.
std::vector<std::string_view> LabelValues(const MetricRow& row);

// A job has no more series than that.
inline constexpr size_t kSeriesMax = 500;

// The series of the job and of its checkpoints, for a platform's operator. Those of single slow
// ranks are not told, nor those of the master's own work.
std::vector<wire::Measure> MeasuresOf(const MetricSource& source);

std::string MetricsText(const MetricSource& source);
std::string MetricsMarkdown();  // docs/metrics.md

}  // namespace paceline::master
