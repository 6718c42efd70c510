#pragma once

// The output of a command: data to stdout, messages for people to stderr. The object knows the
// format and the width, and for each stream whether colours and non-ASCII signs may be used.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/error.h"
#include "paceline/cli/flags/flag.h"

namespace paceline::cli {

enum class Format { kText, kJson, kJsonl, kWide, kPlain };
enum class Paint { kNone, kBold, kDim, kRed, kGreen, kYellow, kCyan };

// --color > NO_COLOR > CLICOLOR_FORCE > CLICOLOR=0 > TERM=dumb > a terminal. `asked` is "",
// "auto", "always" or "never".
bool ChooseColor(std::string_view asked, const Environment& environment, bool is_terminal);

// From LC_ALL, LC_CTYPE, LANG. Without any of them: no.
bool LocaleIsUtf8(const Environment& environment);

// Columns of the terminal on `fd`, else COLUMNS, else 80. 0 for a pipe: lines are not shortened.
size_t TerminalWidth(int fd, const Environment& environment);

struct OutputOptions {
  Format format = Format::kText;
  bool quiet = false;
  bool verbose = false;
  bool progress = false;  // a live line may be drawn on stderr
  bool color_stdout = false;
  bool color_stderr = false;
  bool utf8 = true;
  size_t width = 80;
};

// `color` is the value of output.color, which a flag may have overridden already.
Result<OutputOptions> ChooseOutput(const ParsedLine& line, const Environment& environment,
                                   std::string_view color);

class Output {
 public:
  explicit Output(OutputOptions options, FILE* out = stdout, FILE* err = stderr)
      : options_(options), out_(out), err_(err) {}

  const OutputOptions& options() const { return options_; }
  bool is_json() const {
    return options_.format == Format::kJson || options_.format == Format::kJsonl;
  }
  size_t width() const { return options_.format == Format::kWide ? 0 : options_.width; }

  void Data(std::string_view text);  // stdout, with signs that the locale has
  void DataLine(std::string_view text);
  // A table on stdout, the first row its heads: aligned, or with tabs for `-o plain`.
  void Rows(const std::vector<std::vector<std::string>>& rows);
  void FileBytes(std::string_view bytes);  // stdout, as they are: what would be a file's content
  bool Flush();                            // stdout; returns false if the reader has closed its end
  void Say(std::string_view sentence);     // stderr, unless --quiet
  void Detail(std::string_view sentence);  // stderr, with --verbose
  void Warn(const Problem& problem);       // stderr, unless --quiet
  int Fail(const Problem& problem);        // prints it; returns the exit code
  std::string Painted(Paint paint, std::string_view text) const;  // for stdout

 private:
  void Write(FILE* stream, std::string_view text);

  OutputOptions options_;
  FILE* out_;
  FILE* err_;
};

}  // namespace paceline::cli
