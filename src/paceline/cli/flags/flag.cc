#include "paceline/cli/flags/flag.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

// The kinds of words before the script.
struct Positional {};
struct Named {
  const Flag* flag = nullptr;
  std::string_view spelling;
  std::optional<std::string> joined;  // the value that came with it
};
struct Unknown {};
struct Ambiguous {
  std::vector<std::string_view> matches;
};
using Word = std::variant<Positional, Named, Unknown, Ambiguous>;

bool LooksLikeNegativeNumber(std::string_view word) {
  word.remove_prefix(1);
  const size_t point = word.find('.');
  const auto digits = [](std::string_view part) {
    return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (point == std::string_view::npos) return !word.empty() && digits(word);
  return point + 1 < word.size() && digits(word.substr(0, point)) && digits(word.substr(point + 1));
}

class LineParser {
 public:
  LineParser(const Grammar& grammar, std::span<const std::string> args)
      : grammar_(grammar), args_(args) {}

  Result<ParsedLine> Parse() {
    while (next_ < args_.size()) {
      if (args_[next_] == "--") {
        ++next_;
        TakeRest(/*after_separator=*/true);
        break;
      }
      const Word word = Classify(args_[next_]);
      if (std::holds_alternative<Positional>(word)) {
        const bool is_script = line_.positionals.size() >= grammar_.words_before_script;
        if (grammar_.stops_at_script && is_script) {
          TakeRest(/*after_separator=*/false);
          break;
        }
        line_.positionals.push_back(args_[next_++]);
        continue;
      }
      if (Check problem = TakeFlag(word)) return *std::move(problem);
    }
    return std::move(line_);
  }

 private:
  const Flag* FindExact(std::string_view spelling) const {
    for (const FlagTable table : grammar_.tables) {
      for (const Flag& flag : table) {
        for (const std::string_view known : flag.spellings) {
          if (!known.empty() && known == spelling) return &flag;
        }
      }
    }
    return nullptr;
  }

  Word Classify(const std::string& word) const {
    if (word.empty() || word[0] != '-') return Positional{};
    if (const Flag* flag = FindExact(word)) return Named{flag, word, std::nullopt};
    if (word.size() == 1) return Positional{};
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      const std::string_view name = std::string_view(word).substr(0, equals);
      if (const Flag* flag = FindExact(name)) return Named{flag, name, word.substr(equals + 1)};
    }
    const Word expanded = word[1] == '-' ? Expand(word) : SplitShort(word);
    if (!std::holds_alternative<Unknown>(expanded)) return expanded;
    if (LooksLikeNegativeNumber(word) || word.find(' ') != std::string::npos) return Positional{};
    return Unknown{};
  }

  // A unique prefix of a long torchrun flag. Ours are never abbreviated, so a new flag of ours
  // cannot break a command line that works today.
  Word Expand(const std::string& word) const {
    const size_t equals = word.find('=');
    const std::string_view prefix = std::string_view(word).substr(0, equals);
    std::vector<std::string_view> matches;
    Named found;
    for (const FlagTable table : grammar_.tables) {
      for (const Flag& flag : table) {
        if (flag.origin != FlagOrigin::kTorchrun) continue;
        const auto match =
            std::find_if(flag.spellings.begin(), flag.spellings.end(),
                         [&](std::string_view known) { return known.starts_with(prefix); });
        if (match == flag.spellings.end()) continue;
        matches.push_back(*match);
        found = Named{&flag, *match, std::nullopt};
      }
    }
    if (matches.empty()) return Unknown{};
    if (matches.size() > 1) return Ambiguous{std::move(matches)};
    if (equals != std::string::npos) found.joined = word.substr(equals + 1);
    return found;
  }

  // -r3: the value, or the next short flags, follow without a space.
  Word SplitShort(const std::string& word) const {
    const Flag* flag = FindExact(std::string_view(word).substr(0, 2));
    if (flag == nullptr) return Unknown{};
    return Named{flag, std::string_view(word).substr(0, 2), word.substr(2)};
  }

  Check TakeFlag(const Word& word) {
    if (std::holds_alternative<Unknown>(word)) return UnknownFlag();
    if (const auto* several = std::get_if<Ambiguous>(&word)) return AmbiguousFlag(*several);
    const size_t at = next_++;
    Named named = std::get<Named>(word);
    while (named.flag->kind == FlagKind::kSwitch && named.joined.has_value()) {
      if (named.spelling.size() != 2 || named.joined->empty()) return TakesNoValue(named, at);
      line_.given.push_back({named.flag, "", at});
      const std::string short_name = "-" + named.joined->substr(0, 1);
      const Flag* following = FindExact(short_name);
      if (following == nullptr) return TakesNoValue(named, at);
      std::optional<std::string> rest;
      if (named.joined->size() > 1) rest = named.joined->substr(1);
      named = Named{following, following->spellings[0], rest};
    }
    if (named.flag->kind == FlagKind::kSwitch) {
      line_.given.push_back({named.flag, "", at});
      return std::nullopt;
    }
    if (!named.joined.has_value()) {
      if (next_ >= args_.size() || args_[next_] == "--" ||
          !std::holds_alternative<Positional>(Classify(args_[next_]))) {
        return NeedsValue(named, at);
      }
      named.joined = args_[next_++];
    }
    line_.given.push_back({named.flag, *named.joined, at});
    return CheckValue(line_.given.back());
  }

  // The script and its arguments. argparse drops one "--" right after the script, unless another
  // one stood before it; so do we.
  void TakeRest(bool after_separator) {
    const size_t first = next_;
    for (; next_ < args_.size(); ++next_) {
      const bool dropped = grammar_.drops_separator && !after_separator && next_ == first + 1 &&
                           args_[next_] == "--";
      if (!dropped) line_.positionals.push_back(args_[next_]);
    }
  }

  std::string Where(size_t index) const { return PointAtArgument(grammar_.command, args_, index); }

  Problem UnknownFlag() const {
    const std::string& word = args_[next_];
    const std::string name = word.substr(0, word.find('='));
    std::vector<std::string_view> known;
    for (const FlagTable table : grammar_.tables) {
      for (const Flag& flag : table) {
        for (const std::string_view spelling : flag.spellings) {
          if (spelling.size() > 2) known.push_back(spelling);
        }
      }
    }
    const std::string_view nearest = Nearest(name, known);
    return Problem{
        .code = "PL-E001",
        .what = grammar_.command + " has no flag " + name,
        .where = Where(next_),
        .why = grammar_.stops_at_script ? "flags of the script itself stand after the script" : "",
        .fix = nearest.empty() ? grammar_.command + " --help"
                               : "did you mean " + std::string(nearest) + "?"};
  }

  Problem AmbiguousFlag(const Ambiguous& several) const {
    std::string names;
    for (const std::string_view match : several.matches) {
      names += (names.empty() ? "" : ", ") + std::string(match);
    }
    return Problem{.code = "PL-E004",
                   .what = args_[next_] + " could be several flags",
                   .where = Where(next_),
                   .why = "it begins " + names,
                   .fix = "write one of them out"};
  }

  Problem TakesNoValue(const Named& named, size_t at) const {
    return Problem{.code = "PL-E002",
                   .what = std::string(named.flag->spellings[0]) + " takes no value",
                   .where = Where(at),
                   .why = "\"" + *named.joined + "\" is joined to it",
                   .fix = "leave the value out"};
  }

  Problem NeedsValue(const Named& named, size_t at) const {
    std::string why = "the line ends here";
    if (next_ < args_.size()) why = ShellWord(args_[next_]) + " is a flag itself";
    const std::string name(named.flag->spellings[0]);
    const std::string metavar(named.flag->metavar.empty() ? "VALUE" : named.flag->metavar);
    return Problem{.code = "PL-E002",
                   .what = name + " needs a value",
                   .where = Where(at),
                   .why = why,
                   .fix = name + "=" + metavar};
  }

  // An empty value is the name of nothing, and most often a variable of the shell that is not set.
  // torchrun takes it as no value for most of its own flags.
  Check CheckNotEmpty(const Given& given) const {
    const Flag& flag = *given.flag;
    const bool is_text = flag.kind == FlagKind::kText || flag.kind == FlagKind::kList;
    if (!is_text || !given.value.empty() || flag.origin == FlagOrigin::kTorchrun) {
      return std::nullopt;
    }
    const std::string name(flag.spellings[0]);
    const std::string metavar(flag.metavar.empty() ? "VALUE" : flag.metavar);
    return Problem{.code = "PL-E003",
                   .what = name + " cannot be empty",
                   .where = Where(given.argument),
                   .why = "its value is \"\", as of a variable of the shell that is not set",
                   .fix = name + "=" + metavar + ", or leave it out"};
  }

  Check CheckValue(const Given& given) const {
    if (Check problem = CheckNotEmpty(given)) return problem;
    std::string expected;
    if (IsValueOf(*given.flag, given.value, &expected)) return std::nullopt;
    return Problem{
        .code = "PL-E003",
        .what = std::string(given.flag->spellings[0]) + " cannot be \"" + given.value + "\"",
        .where = Where(given.argument),
        .why = "it takes " + expected,
        .fix = grammar_.command + " --help"};
  }

  const Grammar& grammar_;
  std::span<const std::string> args_;
  size_t next_ = 0;
  ParsedLine line_;
};

bool IsChoice(std::string_view text, std::string_view choices) {
  for (const std::string& choice : Split(choices, '|')) {
    if (text == choice) return true;
  }
  return false;
}

}  // namespace

const Given* ParsedLine::Find(std::string_view dest) const {
  const auto found = std::find_if(given.rbegin(), given.rend(),
                                  [&](const Given& g) { return g.flag->dest == dest; });
  return found == given.rend() ? nullptr : &*found;
}

std::string ParsedLine::Text(std::string_view dest, std::string_view missing) const {
  const Given* found = Find(dest);
  return found == nullptr ? std::string(missing) : found->value;
}

int64_t ParsedLine::Number(std::string_view dest, int64_t missing) const {
  return ParseInteger(Text(dest)).value_or(missing);
}

Result<ParsedLine> ParseFlags(const Grammar& grammar, std::span<const std::string> args) {
  return LineParser(grammar, args).Parse();
}

bool IsValueOf(const Flag& flag, std::string_view text, std::string* expected) {
  switch (flag.kind) {
    case FlagKind::kSwitch:
    case FlagKind::kText:
    case FlagKind::kList: return true;
    case FlagKind::kInteger: {
      *expected = "a whole number";
      if (flag.minimum != INT64_MIN) *expected += Concat(" of at least ", flag.minimum);
      if (flag.maximum != INT64_MAX) *expected += Concat(" and at most ", flag.maximum);
      const std::optional<int64_t> number = ParseInteger(text);
      return number.has_value() && *number >= flag.minimum && *number <= flag.maximum;
    }
    case FlagKind::kNumber: *expected = "a number"; return ParseNumber(text).has_value();
    case FlagKind::kDuration:
      *expected = Concat("a duration from 0 to ", kLongestDuration,
                         " with its unit, such as 250ms, 30s or 5m");
      return ParseDuration(text).has_value();
    case FlagKind::kSize:
      *expected = Concat("a size from ", std::max<int64_t>(flag.minimum, 0), " to ", kLargestSize,
                         " with its unit, such as 512MiB or 10GiB");
      return ParseSize(text).has_value() && static_cast<int64_t>(*ParseSize(text)) >= flag.minimum;
    case FlagKind::kOnOff: *expected = "on or off"; return ParseOnOff(text).has_value();
    case FlagKind::kChoice:
      *expected = "one of " + std::string(flag.choices);
      return IsChoice(text, flag.choices);
  }
  return false;
}

}  // namespace paceline::cli
