#include "paceline/logclass/rule_set.h"

#include <re2/re2.h>
#include <re2/set.h>
#include <re2/stringpiece.h>

#include <algorithm>
#include <map>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/logclass/rule_file.h"

namespace paceline::logclass {
namespace {

using Role = ExitCause::Role;

// A longer line is cut here.
constexpr size_t kLineBytesMax = 4096;

// Bytes, because what programs print need not be UTF-8.
RE2::Options OptionsOf(int64_t memory_max) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(RE2::Options::EncodingLatin1);
  options.set_max_mem(memory_max);
  return options;
}

constexpr int64_t kPatternMemoryMax = 1 << 20;
constexpr int64_t kSetMemoryMax = 32 << 20;

re2::StringPiece PieceOf(std::string_view text) { return {text.data(), text.size()}; }

absl::Status ProblemOfRule(const Rule& rule, std::string what, std::string why, std::string fix) {
  return RuleProblem(rule.file, rule.line, std::move(what), std::move(why), std::move(fix));
}

absl::Status CheckPattern(const Rule& rule) {
  const RE2 pattern(rule.pattern, OptionsOf(kPatternMemoryMax));
  if (!pattern.ok()) {
    return ProblemOfRule(rule, Concat("the pattern of ", rule.name, " is no regular expression"),
                         Concat("RE2 says: ", pattern.error()),
                         "correct it; look-ahead and back-references do not exist in RE2");
  }
  if (RE2::PartialMatch("", pattern)) {
    return ProblemOfRule(rule, Concat("the pattern of ", rule.name, " matches the empty text"),
                         "it would match each line of each rank",
                         "write what the line must contain");
  }
  return absl::OkStatus();
}

// Without "[rank3]: ", which torch puts before each line of a traceback.
std::string_view WithoutRank(std::string_view line) {
  std::string_view rest = line;
  if (!TakePrefix(&rest, "[rank")) return line;
  const size_t digits = rest.find_first_not_of("0123456789");
  if (digits == 0 || digits == rest.npos) return line;
  rest.remove_prefix(digits);
  return TakePrefix(&rest, "]: ") ? rest : line;
}

void Keep(const Rule** place, const Rule* rule) {
  if (*place == nullptr) *place = rule;
}

}  // namespace

struct RuleSet::Patterns {
  RE2::Set all{OptionsOf(kSetMemoryMax), RE2::UNANCHORED};
  // For a line for which the set has too little memory.
  std::vector<std::unique_ptr<RE2>> each;

  std::vector<int> In(std::string_view line) const {
    std::vector<int> found;
    RE2::Set::ErrorInfo error{};
    if (all.Match(PieceOf(line), &found, &error) || error.kind == RE2::Set::kNoError) return found;
    found.clear();
    for (size_t i = 0; i < each.size(); ++i) {
      if (RE2::PartialMatch(PieceOf(line), *each[i])) found.push_back(static_cast<int>(i));
    }
    return found;
  }
};

RuleSet::RuleSet() = default;
RuleSet::RuleSet(RuleSet&&) noexcept = default;
RuleSet& RuleSet::operator=(RuleSet&&) noexcept = default;
RuleSet::~RuleSet() = default;

absl::StatusOr<RuleSet> RuleSet::Make(std::vector<Rule> rules) {
  RuleSet set;
  set.rules_ = std::move(rules);
  set.patterns_ = std::make_unique<Patterns>();
  std::map<std::string_view, const Rule*> names;
  for (const Rule& rule : set.rules_) {
    const auto [first, is_new] = names.emplace(rule.name, &rule);
    if (!is_new) {
      return ProblemOfRule(
          rule, Concat("the class ", rule.name, " stands twice"),
          Concat("it is already at ", first->second->file, ":", first->second->line),
          "give it another name, or join both patterns with |");
    }
    RETURN_IF_ERROR(CheckPattern(rule));
    set.patterns_->all.Add(rule.pattern, nullptr);
    set.patterns_->each.push_back(
        std::make_unique<RE2>(rule.pattern, OptionsOf(kPatternMemoryMax)));
  }
  if (!set.rules_.empty() && !set.patterns_->all.Compile()) {
    return ProblemOfRule(set.rules_.back(), "the rules are too large together",
                         "their patterns need more than 32 MiB of memory",
                         "leave out repetitions such as {1,1000}");
  }
  for (const Rule& rule : set.rules_) {
    const Rule* found = nullptr;
    for (const std::string_view line : SplitParts(rule.example, "\r\n")) {
      if (found == nullptr) found = set.Match(line);
    }
    if (found == &rule) continue;
    const std::string why = found == nullptr ? "no rule matches it"
                                             : Concat("it belongs to ", found->name, " at ",
                                                      found->file, ":", found->line);
    return ProblemOfRule(rule, Concat("the example of ", rule.name, " does not belong to it"), why,
                         "correct the pattern or the example, or put the rule before the other");
  }
  return set;
}

const Rule* RuleSet::Find(std::string_view name) const {
  const auto found = std::find_if(rules_.begin(), rules_.end(),
                                  [&](const Rule& rule) { return rule.name == name; });
  return found == rules_.end() ? nullptr : &*found;
}

const Rule* RuleSet::Match(std::string_view line) const {
  if (rules_.empty()) return nullptr;
  const Rule* best = nullptr;
  std::vector<int> found = patterns_->In(WithoutRank(line).substr(0, kLineBytesMax));
  std::sort(found.begin(), found.end());
  for (const int index : found) {
    const Rule& rule = rules_[static_cast<size_t>(index)];
    if (!rule.is_general) return &rule;
    Keep(&best, &rule);
  }
  return best;
}

Matches RuleSet::Scan(std::string_view text, bool is_kernel) const {
  Matches matches;
  for (const std::string_view line : SplitParts(text, "\r\n")) {
    const Rule* rule = Match(line);
    if (rule == nullptr || (is_kernel && rule->is_own)) continue;
    if (rule->role == Role::kAdvice) {
      Keep(&matches.advice, rule);
    } else if (rule->role == Role::kCascade) {
      Keep(&matches.cascade, rule);
    } else {
      Keep(rule->is_general ? &matches.general : &matches.cause, rule);
    }
  }
  return matches;
}

}  // namespace paceline::logclass
