// `paceline tables`: the embedding tables on the job's servers, one a line.

#include <map>

#include "paceline/base/bytes_text.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/show/server_counts.h"
#include "paceline/cli/show/table_export.h"
#include "paceline/wire/codec/control_json.h"

namespace paceline::cli {
namespace {

constexpr int kCountsPatienceMs = 1'000;

struct SeenTables {
  std::vector<ServedTable> tables;   // by name, over all servers
  std::vector<std::string> missing;  // servers without an answer
};

SeenTables LookAtTables(const Invocation& invocation, const JobPlace& place,
                        const wire::JobStatus& status) {
  SeenTables seen;
  std::map<std::string, ServedTable> sums;
  for (const wire::TaskStatus& task : status.tasks) {
    const auto rank = TaskOfName(task.name);
    if (!rank || KindOfTask(*rank) != TaskKind::kPs) continue;
    const auto counts = CountsOfServer(invocation.environment, place.run_dir, NumberOfTask(*rank),
                                       kCountsPatienceMs);
    if (!counts) {
      seen.missing.push_back(task.name);
      continue;
    }
    for (const ServedTable& one : counts->tables) {
      ServedTable& sum = sums.try_emplace(one.name).first->second;
      sum.name = one.name;
      sum.dim = one.dim;
      sum.optimizer = one.optimizer;
      sum.rows += one.rows;
      sum.bytes += one.bytes;
      sum.budget_bytes += one.budget_bytes;
      sum.admitted += one.admitted;
      sum.refused += one.refused;
      sum.is_closed = sum.is_closed || one.is_closed;
    }
  }
  for (auto& [name, table] : sums) seen.tables.push_back(std::move(table));
  return seen;
}

void PrintTableLines(Output& out, const SeenTables& seen) {
  std::vector<std::vector<std::string>> rows = {
      {"TABLE", "DIM", "OPTIMIZER", "ROWS", "BYTES", "BUDGET", "ADMITTED", "REFUSED", "NOTE"}};
  for (const ServedTable& one : seen.tables) {
    rows.push_back({Visible(one.name), std::to_string(one.dim), Visible(one.optimizer),
                    std::to_string(one.rows), BytesText(one.bytes),
                    one.budget_bytes == 0 ? "-" : BytesText(one.budget_bytes),
                    std::to_string(one.admitted), std::to_string(one.refused),
                    one.is_closed ? "its budget is reached: new keys get no row" : ""});
  }
  out.Data(Table(rows, out.width()));
}

void PrintTablesJson(Output& out, const wire::JobStatus& status, const SeenTables& seen) {
  nlohmann::ordered_json json = {{"schema", "paceline.tables/1"}, {"job", status.job_id}};
  json["silent_servers"] = seen.missing;
  json["tables"] = nlohmann::ordered_json::array();
  for (const ServedTable& one : seen.tables) {
    json["tables"].push_back({{"name", one.name},
                              {"dim", one.dim},
                              {"optimizer", one.optimizer},
                              {"rows", one.rows},
                              {"bytes", one.bytes},
                              {"budget_bytes", one.budget_bytes},
                              {"admitted", one.admitted},
                              {"refused", one.refused},
                              {"is_closed", one.is_closed}});
  }
  out.DataLine(PrintJson(json, {.indent = 2}));
}

}  // namespace

int RunTables(Invocation& invocation) {
  Output& out = invocation.out;
  if (!invocation.line.positionals.empty()) return ExportTableFile(invocation);
  auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  const auto status = StatusOf(*place, kStatusPatience);
  if (!status.ok()) return out.Fail(status.problem());
  const SeenTables seen = LookAtTables(invocation, *place, *status);
  if (seen.tables.empty()) {
    const bool has_silent = !seen.missing.empty();
    return out.Fail(
        {.code = "PL-E209",
         .what = "no table server of the job shows a table",
         .where = status->job_id,
         .why = has_silent ? Concat(JoinWith(seen.missing, ", "), " did not answer on this host")
                           : "it was not started with --tables, or no worker has "
                             "opened a table yet",
         .fix = has_silent ? "paceline tasks, on the host of the servers"
                           : "paceline run --workers 3 --ps 2 --tables DIR train.py"});
  }
  for (const std::string& server : seen.missing) {
    out.Say(Concat(server, " did not answer; its rows are not in these numbers"));
  }
  if (out.is_json()) {
    PrintTablesJson(out, *status, seen);
  } else {
    PrintTableLines(out, seen);
  }
  return kExitDone;
}

}  // namespace paceline::cli
