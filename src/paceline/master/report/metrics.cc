#include "paceline/master/report/metrics.h"

#include "paceline/base/number_text.h"
#include "paceline/base/text.h"

namespace paceline::master {
namespace {

std::string FullName(const MetricRow& row) { return Concat("paceline_", row.name); }

std::string_view TypeName(MetricType type) {
  return type == MetricType::kCounter ? "counter" : "gauge";
}

std::string_view SuffixOf(MetricType type) { return type == MetricType::kCounter ? "_total" : ""; }

constexpr std::string_view kMetricsPage = R"page(# Metrics

This page lists the metrics of a job. For its page in a browser, and for rules and alerts that are
made of these metrics, see [observability](guides/observability.md). The master serves `GET
/metrics` (OpenMetrics text) and `GET /healthz` on a loopback address, which `job.json` names as
`master.http`. Both need the job's reading token or its token, and a `Host` header that names this
host:

```console
$ curl -H "Authorization: Bearer $(cat RUN_DIR/reading_token)" http://127.0.0.1:PORT/metrics
```

The address is 127.0.0.1, or ::1 on a host without IPv4. `network.http_port` sets the port; without
it, any free one is taken. A scraper on another host, or in another pod of Kubernetes, cannot reach
it. On Kubernetes the operator serves [the series of jobs and their
checkpoints](guides/observability.md#jobs-on-kubernetes).

`/healthz` answers `ok`, or `journal: …` while decisions wait for the disk. An answer
with code 200 means that the master's loop runs.

A job has the same series whatever its size. Counters that are not of this master alone go on with
the next master of the job. This page is made by `paceline config docs metrics`; a test compares
them.

| metric | type | meaning |
|---|---|---|
)page";

}  // namespace

std::vector<std::string_view> LabelValues(const MetricRow& row) {
  if (row.label.empty()) return {""};
  return SplitParts(row.values, "|");
}

std::vector<wire::Measure> MeasuresOf(const MetricSource& source) {
  std::vector<wire::Measure> measures;
  for (const MetricRow& row : MetricTable()) {
    if (!row.is_told) continue;
    for (const std::string_view value : LabelValues(row)) {
      measures.push_back({.name = std::string(row.name),
                          .of = std::string(value),
                          .value = row.value(source, value)});
    }
  }
  return measures;
}

std::string MetricsText(const MetricSource& source) {
  std::string text;
  for (const MetricRow& row : MetricTable()) {
    const std::string name = FullName(row);
    text +=
        Concat("# TYPE ", name, " ", TypeName(row.type), "\n# HELP ", name, " ", row.help, ".\n");
    for (const std::string_view value : LabelValues(row)) {
      text += Concat(name, SuffixOf(row.type));
      if (!row.label.empty()) text += Concat("{", row.label, "=\"", value, "\"}");
      text += Concat(" ", NumberText(row.value(source, value)), "\n");
    }
  }
  return text + "# EOF\n";
}

std::string MetricsMarkdown() {
  std::string page(kMetricsPage);
  for (const MetricRow& row : MetricTable()) {
    page += Concat("| `", FullName(row), SuffixOf(row.type));
    if (!row.label.empty()) page += Concat("{", row.label, "}");
    page += Concat("` | ", TypeName(row.type), " | ", row.help);
    if (!row.label.empty()) {
      std::string values;
      for (const std::string_view value : LabelValues(row)) {
        values += Concat(values.empty() ? "" : ", ", value);
      }
      page += Concat("; ", row.label, ": ", values);
    }
    page += " |\n";
  }
  return page;
}

}  // namespace paceline::master
