#pragma once

// Flags as table rows, and the parser over them. One row drives parsing, help, completion, the
// settings that it stands for and the page in docs/guides.
//
// The parser follows Python's argparse where torchrun's users can see it: both spellings, `--flag
// value` and `--flag=value`, joined short flags (-r3, -mr3), unique prefixes, negative numbers as
// values, and everything after the script untouched. Two deliberate differences: words after the
// script are never parsed (argparse refuses an argument of the script that happens to be an
// ambiguous prefix), and the two spellings of one flag do not make a prefix ambiguous.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/console/error.h"

namespace paceline::cli {

enum class FlagKind {
  kSwitch,  // present or not
  kText,
  kInteger,
  kNumber,
  kDuration,
  kSize,
  kOnOff,   // on | off
  kChoice,  // one of `choices`
  kList,    // comma-separated
};

enum class FlagOrigin { kTorchrun, kPaceline };

inline constexpr std::string_view kNoDefault = "\x01none";  // Python's None

struct Flag {
  std::string_view dest;                      // argparse's name, unique in a command
  std::array<std::string_view, 3> spellings;  // the first one is shown; unused ones are empty
  FlagKind kind = FlagKind::kText;
  std::string_view default_text = kNoDefault;
  std::string_view metavar;
  std::string_view help;
  std::string_view choices;     // "a|b|c" for kChoice
  int64_t minimum = INT64_MIN;  // for kInteger
  int64_t maximum = INT64_MAX;  // for kInteger
  FlagOrigin origin = FlagOrigin::kPaceline;
  bool from_pet = false;            // PET_<DEST> gives the default
  std::string_view setting;         // the key that this flag sets, if any
  std::string_view without_effect;  // why paceline accepts it and does nothing
};

using FlagTable = std::span<const Flag>;

// A flag as it was given.
struct Given {
  const Flag* flag = nullptr;
  std::string value;    // "" for a switch
  size_t argument = 0;  // index of the word that named it
};

struct ParsedLine {
  std::vector<Given> given;              // in order; a later one of the same flag wins
  std::vector<std::string> positionals;  // with `stops_at_script`: the script, then its arguments

  // The last one given, or null.
  const Given* Find(std::string_view dest) const;
  bool Has(std::string_view dest) const { return Find(dest) != nullptr; }
  // Its value, or `missing`. Number: also if the value is no whole number.
  std::string Text(std::string_view dest, std::string_view missing = "") const;
  int64_t Number(std::string_view dest, int64_t missing) const;
};

struct Grammar {
  std::string command;             // "paceline run", for messages
  std::vector<FlagTable> tables;   // searched in this order
  bool stops_at_script = false;    // run: the first word that is no flag ends the flags
  size_t words_before_script = 0;  // so many words that are no flags stand before the script
  bool drops_separator = false;    // one "--" right after the script is dropped, as argparse does
};

Result<ParsedLine> ParseFlags(const Grammar& grammar, std::span<const std::string> args);

// Returns true if `text` is a value of the flag's kind. Otherwise *expected describes valid values.
bool IsValueOf(const Flag& flag, std::string_view text, std::string* expected);

}  // namespace paceline::cli
