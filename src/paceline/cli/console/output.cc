#include "paceline/cli/console/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "paceline/cli/console/text.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

std::string_view Escape(Paint paint) {
  switch (paint) {
    case Paint::kNone: return "";
    case Paint::kBold: return "\x1b[1m";
    case Paint::kDim: return "\x1b[2m";
    case Paint::kRed: return "\x1b[31m";
    case Paint::kGreen: return "\x1b[32m";
    case Paint::kYellow: return "\x1b[33m";
    case Paint::kCyan: return "\x1b[36m";
  }
  return "";
}

Format FormatOf(const ParsedLine& line) {
  const Given* output = line.Find("output");
  const Given* json = line.Find("json");
  if (output == nullptr || (json != nullptr && json->argument > output->argument)) {
    return json != nullptr ? Format::kJson : Format::kText;
  }
  if (output->value == "json") return Format::kJson;
  if (output->value == "jsonl") return Format::kJsonl;
  if (output->value == "wide") return Format::kWide;
  if (output->value == "plain") return Format::kPlain;
  return Format::kText;
}

}  // namespace

bool ChooseColor(std::string_view asked, const Environment& environment, bool is_terminal) {
  if (asked == "always") return true;
  if (asked == "never") return false;
  if (!LookupOr(environment, "NO_COLOR", "").empty()) return false;
  const std::string force = LookupOr(environment, "CLICOLOR_FORCE", "");
  if (!force.empty() && force != "0") return true;
  if (LookupOr(environment, "CLICOLOR", "") == "0") return false;
  if (LookupOr(environment, "TERM", "") == "dumb") return false;
  return is_terminal;
}

bool LocaleIsUtf8(const Environment& environment) {
  for (const std::string_view name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = LookupOr(environment, name, "");
    if (value.empty()) continue;
    std::transform(value.begin(), value.end(), value.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

size_t TerminalWidth(int fd, const Environment& environment) {
  if (isatty(fd) == 0) return 0;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
  const auto columns = ParseInteger(LookupOr(environment, "COLUMNS", ""));
  return columns.value_or(0) >= 20 ? static_cast<size_t>(*columns) : 80;
}

Result<OutputOptions> ChooseOutput(const ParsedLine& line, const Environment& environment,
                                   std::string_view color) {
  OutputOptions options;
  options.format = FormatOf(line);
  options.quiet = line.Has("quiet");
  options.verbose = line.Has("verbose");
  if (options.quiet && options.verbose) {
    return Problem{.code = "PL-E005",
                   .what = "--quiet and --verbose exclude each other",
                   .where = "the command line",
                   .fix = "leave one of them out"};
  }
  const bool err_is_terminal = isatty(STDERR_FILENO) != 0;
  options.color_stdout = ChooseColor(color, environment, isatty(STDOUT_FILENO) != 0);
  options.color_stderr = ChooseColor(color, environment, err_is_terminal);
  options.utf8 = LocaleIsUtf8(environment);
  options.width = TerminalWidth(STDOUT_FILENO, environment);
  // No live line with --verbose, because other lines would interrupt it.
  options.progress = err_is_terminal && !line.Has("no_progress") && !options.quiet &&
                     !options.verbose && LookupOr(environment, "TERM", "") != "dumb";
  return options;
}

void Output::Write(FILE* stream, std::string_view text) {
  if (options_.utf8 || (stream == out_ && is_json())) {
    std::fwrite(text.data(), 1, text.size(), stream);
  } else {
    const std::string plain = AsciiSigns(text);
    std::fwrite(plain.data(), 1, plain.size(), stream);
  }
}

void Output::Data(std::string_view text) { Write(out_, text); }

void Output::FileBytes(std::string_view bytes) { std::fwrite(bytes.data(), 1, bytes.size(), out_); }

void Output::DataLine(std::string_view text) {
  Write(out_, text);
  Write(out_, "\n");
}

void Output::Rows(const std::vector<std::vector<std::string>>& rows) {
  if (options_.format != Format::kPlain) return Data(Table(rows, width()));
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (const std::string& cell : row) line += (&cell == row.data() ? "" : "\t") + cell;
    DataLine(line);
  }
}

bool Output::Flush() { return std::fflush(out_) == 0; }

void Output::Say(std::string_view sentence) {
  if (options_.quiet) return;
  std::fflush(out_);
  Write(err_, std::string(sentence) + "\n");
}

void Output::Detail(std::string_view sentence) {
  if (options_.verbose) Say(sentence);
}

void Output::Warn(const Problem& problem) {
  if (options_.quiet) return;
  std::fflush(out_);
  Write(err_, RenderProblem(problem, {.color = options_.color_stderr, .severity = "warn"}));
}

int Output::Fail(const Problem& problem) {
  std::fflush(out_);
  if (is_json()) {
    DataLine(RenderProblemJson(problem));
    std::fflush(out_);
  } else {
    Write(err_, RenderProblem(problem, {.color = options_.color_stderr}));
  }
  return ExitCodeOf(problem);
}

std::string Output::Painted(Paint paint, std::string_view text) const {
  if (!options_.color_stdout || paint == Paint::kNone) return std::string(text);
  return std::string(Escape(paint)) + std::string(text) + "\x1b[0m";
}

}  // namespace paceline::cli
