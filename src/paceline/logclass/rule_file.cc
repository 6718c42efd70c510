#include "paceline/logclass/rule_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"

namespace paceline::logclass {
namespace {

constexpr size_t kRuleFileBytesMax = 1 << 20;
constexpr size_t kRulesMax = 1000;

using Role = ExitCause::Role;

bool IsNameChar(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

bool IsClassName(std::string_view text) {
  constexpr size_t kNameMax = 40;
  const bool has_letter_first = !text.empty() && text.front() >= 'a' && text.front() <= 'z';
  return has_letter_first && text.size() <= kNameMax &&
         std::all_of(text.begin(), text.end(), IsNameChar);
}

// The value of a string with its quotes; `rest` is what stands behind it. Nullopt if the quotes are
// not closed or an escape is unknown.
std::optional<std::string> TakeQuoted(std::string_view text, std::string_view* rest) {
  const char quote = text.front();
  std::string value;
  for (size_t i = 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == quote) {
      *rest = text.substr(i + 1);
      return value;
    }
    if (c != '\\' || quote == '\'') {
      value.push_back(c);
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    constexpr std::string_view kEscapes = "\"\\nt";
    constexpr std::string_view kMeanings = "\"\\\n\t";
    const size_t escape = kEscapes.find(text[i]);
    if (escape == kEscapes.npos) return std::nullopt;
    value.push_back(kMeanings[escape]);
  }
  return std::nullopt;
}

bool IsEndOfLine(std::string_view rest) {
  rest = Trimmed(rest);
  return rest.empty() || rest.front() == '#';
}

std::optional<Role> RoleOf(std::string_view text) {
  if (text == "cause") return Role::kCause;
  if (text == "cascade") return Role::kCascade;
  if (text == "advice") return Role::kAdvice;
  return std::nullopt;
}

bool IsRung(std::string_view text) {
  return text.size() == 2 && text[0] == 'R' && text[1] >= '0' && text[1] <= '9';
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  absl::StatusOr<std::vector<Rule>> Read(std::string_view text) {
    if (text.size() > kRuleFileBytesMax) {
      return At(1, "the rule file is too large", "a rule file has at most 1 MiB", "shorten it");
    }
    while (!text.empty()) {
      ++number_;
      const size_t end = text.find('\n');
      RETURN_IF_ERROR(Take(Trimmed(text.substr(0, end))));
      text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
    RETURN_IF_ERROR(CloseRule());
    return std::move(rules_);
  }

 private:
  absl::Status At(uint32_t line, std::string what, std::string why, std::string fix) const {
    return RuleProblem(file_, line, std::move(what), std::move(why), std::move(fix));
  }

  absl::Status Take(std::string_view line) {
    if (IsEndOfLine(line)) return absl::OkStatus();
    if (TakePrefix(&line, "[[rule]]") && IsEndOfLine(line)) {
      RETURN_IF_ERROR(CloseRule());
      if (rules_.size() >= kRulesMax) {
        return At(number_, "the rule file has too many rules", "a file has at most 1000 of them",
                  "leave some out");
      }
      Rule& rule = rules_.emplace_back();
      rule.file = file_;
      rule.line = number_;
      return absl::OkStatus();
    }
    const size_t equals = line.find('=');
    if (equals == line.npos) {
      return At(number_, "this line is neither a key with its value nor [[rule]]",
                "a rule begins with [[rule]] and has lines such as class = \"disk_full\"",
                "write it as key = \"value\"");
    }
    return TakeKey(std::string(Trimmed(line.substr(0, equals))), Trimmed(line.substr(equals + 1)));
  }

  absl::Status TakeKey(const std::string& key, std::string_view value) {
    if (rules_.empty()) {
      return At(number_, Concat("the key ", key, " stands before the first rule"),
                "a rule begins with [[rule]]", "put [[rule]] above it");
    }
    Rule& rule = rules_.back();
    if (key == "general" || key == "own") {
      if (!TakePrefix(&value, "true") || !IsEndOfLine(value)) {
        return At(number_, Concat("the value of ", key, " is not true"),
                  "the key is left out where it is not true", Concat("write ", key, " = true"));
      }
      (key == "own" ? rule.is_own : rule.is_general) = true;
      return absl::OkStatus();
    }
    std::string* field = FieldOf(key);
    if (field == nullptr) {
      return At(number_, Concat("a rule has no key ", key),
                "a rule has class, role, rung, pattern, advice, example, general and own",
                "correct the name, or remove the line");
    }
    if (!field->empty()) {
      return At(number_, Concat("the key ", key, " stands twice in this rule"),
                "the second value would hide the first", "remove one, or begin with [[rule]]");
    }
    std::string_view rest;
    const bool is_quoted = !value.empty() && (value.front() == '"' || value.front() == '\'');
    std::optional<std::string> text = is_quoted ? TakeQuoted(value, &rest) : std::nullopt;
    if (!text.has_value() || text->empty() || !IsEndOfLine(rest)) {
      return At(number_, Concat("the value of ", key, " is not a string"),
                "a string stands on one line in '…' as it is, or in \"…\" with \\\" \\\\ \\n \\t",
                Concat("write ", key, " = '…'"));
    }
    *field = *std::move(text);
    return absl::OkStatus();
  }

  std::string* FieldOf(std::string_view key) {
    Rule& rule = rules_.back();
    if (key == "class") return &rule.name;
    if (key == "role") return &role_;
    if (key == "rung") return &rule.rung;
    if (key == "pattern") return &rule.pattern;
    if (key == "advice") return &rule.advice;
    return key == "example" ? &rule.example : nullptr;
  }

  // Checks the rule that ends here.
  absl::Status CloseRule() {
    if (rules_.empty()) return absl::OkStatus();
    Rule& rule = rules_.back();
    const std::string role_text = std::exchange(role_, "");
    const std::pair<const char*, const std::string*> fields[] = {
        {"class", &rule.name},      {"role", &role_text},     {"rung", &rule.rung},
        {"pattern", &rule.pattern}, {"advice", &rule.advice}, {"example", &rule.example}};
    for (const auto& [key, value] : fields) {
      if (!value->empty()) continue;
      return At(rule.line, Concat("the rule lacks the key ", key),
                "only general and own may be left out", Concat("add ", key, " = \"…\""));
    }
    if (!IsClassName(rule.name)) {
      return At(rule.line, Concat("the class ", rule.name, " has no usable name"),
                "names have a letter, then letters, digits and underscores, all in lower case, "
                "40 at most",
                "write it like disk_full");
    }
    const std::optional<Role> role = RoleOf(role_text);
    if (!role.has_value()) {
      return At(rule.line, Concat("the role of ", rule.name, " is unknown: ", role_text),
                "a class is a cause, a cascade (another rank broke first) or only advice",
                "write cause, cascade or advice");
    }
    if (!IsRung(rule.rung)) {
      return At(rule.line, Concat("the rung of ", rule.name, " is unknown: ", rule.rung),
                "rungs are R0 to R9", "write the rung that helps, such as R3");
    }
    rule.role = *role;
    return absl::OkStatus();
  }

  const std::string& file_;
  uint32_t number_ = 0;
  std::string role_;  // of the rule that is being read
  std::vector<Rule> rules_;
};

}  // namespace

absl::Status RuleProblem(const std::string& file, uint32_t line, std::string what, std::string why,
                         std::string fix) {
  return ToStatus(absl::StatusCode::kInvalidArgument, {.code = "PL-E017",
                                                       .what = std::move(what),
                                                       .where = Concat(file, ":", line),
                                                       .why = std::move(why),
                                                       .fix = std::move(fix)});
}

absl::StatusOr<std::vector<Rule>> ReadRules(std::string_view text, const std::string& shown_path) {
  return Reader(shown_path).Read(text);
}

}  // namespace paceline::logclass
