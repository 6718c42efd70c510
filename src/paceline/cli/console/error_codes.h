#pragma once

// Every error and warning that paceline can print, in one table: what it means, how it comes about,
// and what helps. `paceline why PL-E012` prints a row; docs/errors.md is made from all of them.
//
// To add one: a row here at the end of its block. Numbers are never used twice.

#include <span>
#include <string>
#include <string_view>

namespace paceline::cli {

struct ErrorCode {
  std::string_view code;
  std::string_view title;  // the general case, as a headline
  int exit_code;           // of a command that ends with it
  std::string_view text;   // what it means and what to do; may have several paragraphs
};

std::span<const ErrorCode> ErrorCodes();

// Null when there is no such code. Upper and lower case are equal; "E012" and "12" are enough.
const ErrorCode* FindErrorCode(std::string_view code);

// docs/errors.md, whole.
std::string ErrorCodesMarkdown();

}  // namespace paceline::cli
