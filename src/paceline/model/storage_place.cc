#include "paceline/model/storage_place.h"

#include <algorithm>

#include "paceline/base/text.h"

namespace paceline {
namespace {

constexpr size_t kPrefixBytesMax = 512;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsLetter(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }

// "gs" of "gs://bucket" and "gs:/bucket"; "" if there is no scheme.
std::string_view SchemeOf(std::string_view text) {
  const size_t colon = text.find(":/");
  if (colon == std::string_view::npos || colon == 0 || !IsLetter(text[0])) return "";
  const std::string_view scheme = text.substr(0, colon);
  const bool is_scheme = std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '+' || c == '-' || c == '.';
  });
  return is_scheme ? scheme : "";
}

// The violated rule of S3's bucket names; "" if there is none.
std::string_view ProblemOfBucket(std::string_view name) {
  const auto is_end = [](char c) { return IsLower(c) || IsDigit(c); };
  const auto is_inner = [&](char c) { return is_end(c) || c == '-' || c == '.'; };
  if (name.size() < 3 || name.size() > 63) return "it must have 3 to 63 characters";
  if (!std::all_of(name.begin(), name.end(), is_inner)) {
    return "it may contain only small letters, digits, '-' and '.'";
  }
  if (!is_end(name.front()) || !is_end(name.back()))
    return "it must begin and end with one of a-z0-9";
  if (name.find("..") != std::string_view::npos) return "it may not have two dots in a row";
  const bool is_address = std::none_of(name.begin(), name.end(), IsLower) &&
                          name.find('-') == std::string_view::npos &&
                          SplitParts(name, ".").size() == 4;
  return is_address ? "it may not be an IP address" : "";
}

std::string_view ProblemOfPrefix(std::string_view prefix) {
  const auto is_plain = [](char c) {
    return IsLetter(c) || IsDigit(c) || std::string_view("/._-=").find(c) != std::string_view::npos;
  };
  if (prefix.size() > kPrefixBytesMax) return "it may have at most 512 characters";
  if (!std::all_of(prefix.begin(), prefix.end(), is_plain)) {
    return "it may contain only letters, digits and ._-= between slashes";
  }
  if (prefix.starts_with('/') || prefix.find("//") != std::string_view::npos) {
    return "it may not have two slashes in a row";
  }
  for (const std::string_view part : SplitParts(prefix, "/")) {
    if (part == "." || part == "..") return "no part of it may be . or ..";
  }
  return "";
}

StoragePlace JudgeBucket(std::string_view rest) {
  while (rest.starts_with('/')) rest.remove_prefix(1);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t slash = rest.find('/');
  StoragePlace place{.bucket = std::string(rest.substr(0, slash))};
  if (slash != std::string_view::npos) place.prefix = rest.substr(slash + 1);
  place.text = Concat("s3://", rest);
  const std::string_view bucket = ProblemOfBucket(place.bucket);
  const std::string_view prefix = ProblemOfPrefix(place.prefix);
  if (!bucket.empty()) {
    place.problem = Concat("\"", place.bucket, "\" is not the name of a bucket: ", bucket);
  } else if (!prefix.empty()) {
    place.problem = Concat("\"", place.prefix, "\" is not a prefix for checkpoints: ", prefix);
  }
  if (!place.problem.empty()) place.fix = "s3://BUCKET/PREFIX, with a bucket that exists";
  return place;
}

}  // namespace

StoragePlace JudgePlace(std::string_view given) {
  const std::string_view scheme = SchemeOf(given);
  if (scheme == "s3") return JudgeBucket(given.substr(scheme.size() + 1));
  StoragePlace place{.text = std::string(given)};
  if (given.find('\0') != std::string_view::npos) {
    place.problem = "a name may not contain a zero byte";
    place.fix = "a directory that all hosts see, or s3://BUCKET/PREFIX";
  } else if (!scheme.empty()) {
    place.problem = Concat("paceline cannot store in ", scheme, "://");
    place.fix = scheme == "file" ? "the directory alone, without file://"
                : scheme == "S3"
                    ? "s3://BUCKET/PREFIX, in small letters"
                    : Concat("a directory that all hosts see, s3://BUCKET/PREFIX, or ./", given,
                             " for a directory of that name");
  }
  return place;
}

bool IsWholePlace(std::string_view given) {
  const StoragePlace place = JudgePlace(given);
  if (!place.problem.empty()) return false;
  return place.bucket.empty() ? given.starts_with("/") : given.starts_with("s3://");
}

}  // namespace paceline
