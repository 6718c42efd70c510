#pragma once

// All rules together, compiled. Matching takes time in proportion to the text, whatever the
// patterns are: RE2 never goes back in it.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/logclass/rule.h"

namespace paceline::logclass {

// What was found in a text: of each kind the class of the first line that has one.
struct Matches {
  const Rule* cause = nullptr;
  const Rule* cascade = nullptr;
  const Rule* general = nullptr;  // causes that are general
  const Rule* advice = nullptr;
};

class RuleSet {
 public:
  // Refuses a pattern that is no regular expression or that matches the empty text, a class that
  // stands twice, and an example that does not belong to its own rule. An error has a Problem.
  static absl::StatusOr<RuleSet> Make(std::vector<Rule> rules);
  RuleSet(RuleSet&&) noexcept;
  RuleSet& operator=(RuleSet&&) noexcept;
  ~RuleSet();

  const std::vector<Rule>& rules() const { return rules_; }
  // Null if there is no such class.
  const Rule* Find(std::string_view name) const;
  // The first rule that matches the line, and if that is a general one, the first other one.
  const Rule* Match(std::string_view line) const;
  // `is_kernel`: lines of the kernel that are not about the rank's process.
  Matches Scan(std::string_view text, bool is_kernel = false) const;

 private:
  struct Patterns;
  RuleSet();

  std::vector<Rule> rules_;
  std::unique_ptr<Patterns> patterns_;
};

}  // namespace paceline::logclass
