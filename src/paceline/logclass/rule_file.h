#pragma once

// Reads rule files. They are TOML of a fixed form, with `[[rule]]`, strings and `true`. A parser
// for the whole language throws exceptions and would be the largest part of this layer.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/logclass/rule.h"
#include "paceline/model/problem.h"

namespace paceline::logclass {

// The rules of one file in their order. An error has a Problem (PL-E017) with the file's line.
// `shown_path` is the file's name for users.
absl::StatusOr<std::vector<Rule>> ReadRules(std::string_view text, const std::string& shown_path);

// The error of that line of a rule file.
absl::Status RuleProblem(const std::string& file, uint32_t line, std::string what, std::string why,
                         std::string fix);

}  // namespace paceline::logclass
