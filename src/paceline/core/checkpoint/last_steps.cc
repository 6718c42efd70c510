#include "paceline/core/checkpoint/last_steps.h"

#include <algorithm>
#include <set>
#include <utility>

#include "paceline/base/mark.h"

namespace paceline::core {
namespace {

constexpr std::string_view kNever = "not every rank has it: ";
constexpr Duration kLookAgain = Duration::Seconds(1);

std::set<SavedStep> StepsOf(const CheckpointReport& report, Rank rank, Generation generation) {
  std::set<SavedStep> steps;
  for (const MemoryImage& image : report.images) {
    const bool is_own = image.rank == rank && !image.is_copy;
    if (is_own && image.saved.generation == generation.value()) steps.insert(image.saved);
  }
  return steps;
}

bool HasFinished(const CheckpointReport& report, uint32_t rank) {
  return std::find(report.finished.begin(), report.finished.end(), rank) != report.finished.end();
}

const CheckpointReport* ReportOf(const Memories& memories, NodeId node) {
  const auto report = memories.reports.find(node);
  return report == memories.reports.end() ? nullptr : &report->second;
}

struct RankNow {
  std::set<SavedStep> steps;  // in memory
  bool is_final = false;      // it will not save any more
  bool has_ended = false;
  bool has_finished = false;
  SavedStep newest() const { return steps.empty() ? SavedStep() : *steps.rbegin(); }
  bool CanHave(SavedStep step) const {
    return steps.contains(step) || (!is_final && newest() < step);
  }
};

std::string Tell(const std::map<uint32_t, RankNow>& ranks, SavedStep awaited,
                 std::optional<SavedStep> stored) {
  // The rank that is furthest behind.
  const auto last = std::min_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.second.newest() < b.second.newest();
  });
  const auto of_step = [&](const auto& one) { return !one.second.steps.contains(awaited); };
  const auto lacking = std::find_if(ranks.begin(), ranks.end(), of_step);
  const auto& [rank, now] = lacking == ranks.end() ? *last : *lacking;
  const SavedStep newest = now.newest();
  std::string text = std::string(kNever) + "rank " + std::to_string(rank);
  if (newest > awaited) {
    text += " has only later steps in memory, its last save is " + Say(newest);
  } else {
    text += now.has_ended      ? " has ended"
            : now.has_finished ? " has nothing more to save"
                               : " waits as well";
    text += now.steps.empty() ? " and has saved nothing" : ", its last save is " + Say(newest);
  }
  const auto ahead = std::find_if(ranks.begin(), ranks.end(), [&](const auto& one) {
    return !one.second.steps.empty() && *one.second.steps.begin() > newest;
  });
  if (!now.steps.empty() && ahead != ranks.end()) {
    text += "; rank " + std::to_string(ahead->first) + " has overwritten that step with later ones";
  }
  text += stored.has_value() ? "; " + Say(*stored) + " is in storage"
                             : "; nothing of this job is in storage";
  return text;
}

}  // namespace

bool SaysNever(const std::string& problem) { return problem.starts_with(kNever); }

bool LastSteps::Reset() {
  look_at_ = Instant::Max();
  progress_.clear();
  return !std::exchange(why_, std::string()).empty();
}

bool LastSteps::Look(Instant now, const World& world, const Memories& memories,
                     const HasEnded& has_ended, std::optional<SavedStep> stored) {
  std::optional<SavedStep> awaited;  // the lowest one: a stored save of it may serve the others
  for (const Seat& seat : world.seats) {
    const CheckpointReport* report = ReportOf(memories, seat.node);
    if (report == nullptr || !report->flush.has_value()) continue;
    const SavedStep flush = *report->flush;
    if (!stored.has_value() || flush > *stored) awaited = std::min(flush, awaited.value_or(flush));
  }
  if (!awaited.has_value()) return Reset();
  look_at_ = now + kLookAgain;
  std::map<uint32_t, RankNow> ranks;
  std::map<uint32_t, Progress> progress;
  bool all_wait = true;  // every node has a rank that waits
  for (const Seat& seat : world.seats) {
    const CheckpointReport* report = ReportOf(memories, seat.node);
    all_wait = all_wait && (report == nullptr || report->flush.has_value());
    for (uint32_t rank = seat.first_rank; rank < seat.first_rank + seat.rank_count; ++rank) {
      RankNow& one = ranks[rank];
      if (report != nullptr) one.steps = StepsOf(*report, Rank(rank), world.generation);
      one.has_ended = has_ended && has_ended(seat.node, Rank(rank));
      one.has_finished = report != nullptr && HasFinished(*report, rank);
      progress[rank] = {one.newest(), one.has_finished};
    }
  }
  if (progress != progress_) {
    progress_ = std::move(progress);
    since_ = now;
  }
  const bool is_quiet = all_wait && now >= since_ + kQuiet;
  const bool is_over = now >= since_ + kReopen;
  const RankNow* final_one = nullptr;
  for (auto& [rank, one] : ranks) {
    one.is_final = one.has_ended || (one.has_finished && is_over) || is_quiet;
    if (one.is_final) final_one = &one;
  }
  std::string why;
  if (final_one != nullptr) {
    const bool is_possible =
        std::any_of(final_one->steps.begin(), final_one->steps.end(), [&](SavedStep step) {
          return step >= *awaited && std::all_of(ranks.begin(), ranks.end(), [&](const auto& one) {
                   return one.second.CanHave(step);
                 });
        });
    if (!is_possible) why = Tell(ranks, *awaited, stored);
  }
  if (!why.empty() && why_.empty()) MARK("a step that is awaited will never be whole");
  return std::exchange(why_, why) != why;
}

}  // namespace paceline::core
