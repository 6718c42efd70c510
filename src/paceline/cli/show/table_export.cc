// `paceline tables export`: a table of a directory of snapshots, as a file for other programs.

#include "paceline/cli/show/table_export.h"

#include <string>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/server/table_file.h"

namespace paceline::cli {
namespace {

constexpr std::string_view kExportLine = "paceline tables export ads runs/ctr -o ads.safetensors";

}  // namespace

FlagTable TablesFlags() {
  static constexpr Flag kFlags[] = {{.dest = "tables_out",
                                     .spellings = {"-o", "--out"},
                                     .metavar = "FILE",
                                     .help = "of `export`: the safetensors file to write"}};
  return kFlags;
}

int ExportTableFile(Invocation& invocation) {
  Output& out = invocation.out;
  const std::vector<std::string>& words = invocation.line.positionals;
  const std::string path = invocation.line.Text("tables_out");
  if (words.size() != 3 || words[0] != "export" || path.empty()) {
    return out.Fail({.code = "PL-E002",
                     .what = "paceline tables does not understand these words",
                     .where = JoinWith(words, " "),
                     .why = "an export needs a table, the directory of --tables, and -o",
                     .fix = std::string(kExportLine)});
  }
  const auto written = server::WriteTableFile(words[2], words[1], path);
  if (!written.ok()) {
    return out.Fail({.code = "PL-E211",
                     .what = Concat("the table ", words[1], " cannot be exported"),
                     .where = words[2],
                     .why = std::string(written.status().message()),
                     .fix = "paceline tables lists the tables of a job that runs; the directory is "
                            "that of its --tables"});
  }
  for (const std::string& note : written->notes) out.Say(note);
  if (out.is_json()) {
    out.DataLine(PrintJson(nlohmann::ordered_json{{"schema", "paceline.tables_export/1"},
                                                  {"table", words[1]},
                                                  {"file", path},
                                                  {"rows", written->rows},
                                                  {"dim", written->dim}},
                           {.indent = 2}));
  } else {
    out.DataLine(Concat(Visible(words[1]), ": ", written->rows, " rows of ", written->dim,
                        " floats in ", Visible(path)));
  }
  return kExitDone;
}

}  // namespace paceline::cli
