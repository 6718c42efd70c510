#include "paceline/cli/console/trace_folder.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "paceline/base/text.h"
#include "paceline/cli/console/rank_flag.h"
#include "paceline/model/ids.h"

namespace paceline::cli {
namespace {

constexpr size_t kTraceLinesMax = 2000;
// Generations that a console remembers: ranks of older ones have ended.
constexpr uint64_t kRememberedMax = 4;

bool IsIndented(std::string_view line) { return line.empty() || line.front() == ' '; }

// "RuntimeError: Connection closed by peer": the line after the last frame of a trace.
std::string Headline(const std::vector<RankLine>& lines) {
  size_t last_frame = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (WithoutRank(lines[i].text).starts_with("  File \"")) last_frame = i;
  }
  for (size_t i = last_frame + 1; i < lines.size(); ++i) {
    const std::string_view line = WithoutRank(lines[i].text);
    if (!IsIndented(line)) return std::string(line);
  }
  return std::string(WithoutRank(lines.front().text));
}

RankLine InOneLine(const std::vector<RankLine>& lines) {
  RankLine line = lines.front();
  line.text = Concat(Headline(lines), "  (its trace: paceline logs ", RankFlag(Rank(line.rank)),
                     " --generation ", WorldNumber(line.generation), ")");
  return line;
}

}  // namespace

std::string_view WithoutRank(std::string_view line) {
  constexpr std::string_view kOpen = "[rank";
  if (!line.starts_with(kOpen)) return line;
  const size_t digits = line.find_first_not_of("0123456789", kOpen.size());
  constexpr std::string_view kClose = "]:";
  if (digits == std::string_view::npos || digits == kOpen.size()) return line;
  if (!line.substr(digits).starts_with(kClose)) return line;
  line.remove_prefix(digits + kClose.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

bool BeginsTrace(std::string_view line) {
  // A SyntaxError's trace has no heading.
  constexpr std::array<std::string_view, 5> kBegins = {
      "  File \"", "Traceback (most recent call last):", "terminate called after throwing",
      "Fatal Python error: ", "Exception raised from "};
  line = WithoutRank(line);
  return std::any_of(kBegins.begin(), kBegins.end(),
                     [line](std::string_view begin) { return line.starts_with(begin); });
}

bool TraceFolder::IsBystander(const Source& source) const {
  const auto blamed = blamed_.find(source.first);
  return blamed != blamed_.end() && blamed->second != source.second;
}

void TraceFolder::Release(const Source& source, Trace trace, std::vector<RankLine>* shown) {
  if (IsBystander(source)) {
    shown->push_back(InOneLine(trace.lines));
    folded_.insert(source);
    return;
  }
  shown->insert(shown->end(), std::make_move_iterator(trace.lines.begin()),
                std::make_move_iterator(trace.lines.end()));
}

std::vector<RankLine> TraceFolder::Add(Instant now, RankLine line) {
  if (!line.is_stderr) return {std::move(line)};
  const Source source{line.generation, line.rank};
  if (folded_.contains(source)) return {};
  const auto found = waiting_.find(source);
  if (found == waiting_.end()) {
    const auto blamed = blamed_.find(line.generation);
    const bool is_blamed = blamed != blamed_.end() && blamed->second == line.rank;
    if (is_blamed || !BeginsTrace(line.text)) return {std::move(line)};
    waiting_[source] = Trace{{std::move(line)}, now + patience_};
    return {};
  }
  found->second.lines.push_back(std::move(line));
  if (found->second.lines.size() < kTraceLinesMax) return {};
  std::vector<RankLine> shown;
  Release(source, std::move(waiting_.extract(found).mapped()), &shown);
  return shown;
}

std::vector<RankLine> TraceFolder::Blame(uint64_t generation, uint32_t rank) {
  blamed_[generation] = rank;
  Forget(generation);
  std::vector<RankLine> shown;
  std::vector<RankLine> cause;
  for (auto trace = waiting_.begin(); trace != waiting_.end();) {
    if (trace->first.first != generation) {
      ++trace;
      continue;
    }
    const bool is_cause = trace->first.second == rank;
    Release(trace->first, std::move(trace->second), is_cause ? &cause : &shown);
    trace = waiting_.erase(trace);
  }
  shown.insert(shown.end(), std::make_move_iterator(cause.begin()),
               std::make_move_iterator(cause.end()));
  return shown;
}

void TraceFolder::Forget(uint64_t generation) {
  while (blamed_.size() > kRememberedMax) blamed_.erase(blamed_.begin());
  const uint64_t oldest = std::min(blamed_.begin()->first, generation);
  folded_.erase(folded_.begin(), folded_.lower_bound({oldest, 0}));
}

std::vector<RankLine> TraceFolder::TakeDue(Instant now) {
  std::vector<RankLine> shown;
  for (auto trace = waiting_.begin(); trace != waiting_.end();) {
    if (trace->second.due > now) {
      ++trace;
      continue;
    }
    Release(trace->first, std::move(trace->second), &shown);
    trace = waiting_.erase(trace);
  }
  return shown;
}

std::vector<RankLine> TraceFolder::TakeAll() { return TakeDue(Instant::Max()); }

Instant TraceFolder::NextDeadline() const {
  Instant next = Instant::Max();
  for (const auto& [source, trace] : waiting_) next = std::min(next, trace.due);
  return next;
}

}  // namespace paceline::cli
