#include "paceline/data/lease/blame.h"

#include <algorithm>
#include <utility>

#include "paceline/base/text.h"

namespace paceline {
namespace {

constexpr std::string_view kSuspect = "suspect";

}  // namespace

void BlameBook::Put(Blamed blamed) {
  Erase(blamed.range);
  blamed_[blamed.range.begin] = std::move(blamed);
}

void BlameBook::Erase(OrdinalRange range) {
  std::erase_if(blamed_, [&range](const auto& entry) {
    return entry.second.range.begin < range.end && range.begin < entry.second.range.end;
  });
}

void BlameBook::Done(OrdinalRange done) {
  std::vector<Blamed> left;
  for (const auto& [begin, blamed] : blamed_) {
    if (begin >= done.end || blamed.range.end <= done.begin) continue;
    for (const OrdinalRange rest :
         {OrdinalRange{begin, std::max(begin, done.begin)},
          OrdinalRange{std::min(blamed.range.end, done.end), blamed.range.end}}) {
      if (rest.size() > 0) left.push_back({.range = rest, .is_suspect = blamed.is_suspect});
    }
  }
  Erase(done);
  for (Blamed& blamed : left) {
    if (!blamed.is_clear()) blamed_[blamed.range.begin] = std::move(blamed);
  }
}

std::vector<Blamed> BlameBook::All() const {
  std::vector<Blamed> all;
  for (const auto& [begin, blamed] : blamed_) all.push_back(blamed);
  return all;
}

std::string BlameToText(const Blamed& blamed) {
  std::string text(blamed.is_suspect ? kSuspect : "");
  const char* before = "\n";
  for (const WorkerKey& key : blamed.failed_on) {
    Append(&text, before, key.worker, "/", key.incarnation);
    before = ",";
  }
  return text;
}

std::optional<Blamed> BlameFromText(std::string_view text) {
  const size_t line = std::min(text.find('\n'), text.size());
  Blamed blamed{.is_suspect = text.substr(0, line) == kSuspect};
  if (!blamed.is_suspect && line != 0) return std::nullopt;
  if (line == text.size()) return blamed;
  for (const std::string_view part : SplitParts(text.substr(line + 1), ",")) {
    const size_t slash = part.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const auto worker = ParseWhole<uint64_t>(part.substr(0, slash));
    const auto incarnation = ParseWhole<uint64_t>(part.substr(slash + 1));
    if (!worker || !incarnation) return std::nullopt;
    blamed.failed_on.insert({*worker, *incarnation});
  }
  return blamed;
}

}  // namespace paceline
