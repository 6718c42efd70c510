// `paceline tables export`: a table of a directory of snapshots, as a file for other programs.

#include "paceline/cli/show/table_export.h"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/console/tool.h"
#include "paceline/cli/run/host_facts.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/server/table_file.h"

namespace paceline::cli {
namespace {

constexpr std::string_view kExportLine = "paceline tables export ads runs/ctr -o ads.safetensors";

Problem NotExported(const std::vector<std::string>& words, std::string why, std::string fix) {
  return {.code = "PL-E211",
          .what = Concat("the table ", words[1], " cannot be exported"),
          .where = words[2],
          .why = std::move(why),
          .fix = std::move(fix)};
}

// The exported file as Parquet. No C++ library of the distributions writes it, so Python does.
Check ToParquet(const Invocation& invocation, const std::vector<std::string>& words,
                const std::string& source, const std::string& target) {
  const HostFacts facts = ReadHostFacts(invocation.environment);
  auto python = FindInterpreter(invocation.environment, invocation.settings, facts);
  if (!python.ok()) return python.problem();
  if (Check problem = CheckInterpreter(*python, facts)) return problem;
  if (!HasModule(*python, "pyarrow")) {
    return NotExported(words, Concat("Parquet needs pyarrow, which ", *python, " does not have"),
                       "pip install 'paceline[parquet]' numpy, or -o NAME.safetensors");
  }
  const auto done = RunTool({*python, "-m", "paceline._tables.parquet", source, target}, "",
                            invocation.environment);
  if (!done.ok()) return done.problem();
  if (done->exit_code == 0) return std::nullopt;
  const std::string_view said = Trimmed(done->err);
  return NotExported(words, Concat(target, " was not written: ", said.substr(said.rfind('\n') + 1)),
                     "-o NAME.safetensors needs neither Python nor pyarrow");
}

// Removes the file at its end.
struct Passing {
  explicit Passing(std::string name) : path(std::move(name)) {}
  ~Passing() { ::unlink(path.c_str()); }
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;
  const std::string path;
};

}  // namespace

FlagTable TablesFlags() {
  static constexpr Flag kFlags[] = {{.dest = "tables_out",
                                     .spellings = {"-o", "--out"},
                                     .metavar = "FILE",
                                     .help = "of `export`: the file to write; NAME.parquet is "
                                             "Parquet, other names are safetensors"}};
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
  // Renaming over a device would replace it.
  struct stat found {};
  const bool is_there = ::lstat(path.c_str(), &found) == 0;
  if (path == "-" || (is_there && !S_ISREG(found.st_mode))) {
    return out.Fail(NotExported(words, Concat(path, " is no regular file"),
                                "-o FILE; the file appears as a whole, by its name"));
  }
  std::optional<Passing> passing;
  if (path.ends_with(".parquet")) passing.emplace(Concat(path, ".", ::getpid(), ".safetensors"));
  const auto written = server::WriteTableFile(words[2], words[1], passing ? passing->path : path);
  if (!written.ok()) {
    return out.Fail(NotExported(words, std::string(written.status().message()),
                                "paceline tables lists the tables of a job that runs; the "
                                "directory is that of its --tables"));
  }
  if (passing) {
    if (Check problem = ToParquet(invocation, words, passing->path, path)) {
      return out.Fail(*std::move(problem));
    }
  }
  for (const std::string& note : written->notes) out.Say(note);
  if (out.is_json()) {
    out.DataLine(PrintJson(nlohmann::ordered_json{{"schema", "paceline.tables_export/1"},
                                                  {"table", words[1]},
                                                  {"file", path},
                                                  {"rows", written->rows},
                                                  {"dim", written->dim},
                                                  {"notes", written->notes}},
                           {.indent = 2}));
  } else {
    out.DataLine(Concat(Visible(words[1]), ": ", written->rows, " rows of ", written->dim,
                        " floats in ", Visible(path)));
  }
  // A note is about a snapshot that is damaged or gone: rows may be missing, or older.
  return written->notes.empty() ? kExitDone : kExitFindings;
}

}  // namespace paceline::cli
