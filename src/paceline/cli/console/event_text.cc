#include "paceline/cli/console/event_text.h"

#include <ctime>
#include <utility>
#include <variant>

#include "paceline/cli/console/text.h"
#include "paceline/core/record.h"

namespace paceline::cli {
namespace {

template <size_t... kIndex>
std::vector<std::string_view> NamesOf(std::index_sequence<kIndex...>) {
  return {core::FactName(core::Fact(std::in_place_index<kIndex>))...};
}

std::string LocalTime(int64_t time_ns, const char* format) {
  const std::time_t seconds = time_ns / 1'000'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof(text), format, &local);
  return text;
}

}  // namespace

std::string TimeOfDay(int64_t time_ns) {
  return LocalTime(time_ns, "%H:%M:%S") + "." + std::to_string(time_ns / 100'000'000 % 10);
}

std::string DateAndTime(int64_t time_ns) { return LocalTime(time_ns, "%Y-%m-%d %H:%M"); }

std::vector<std::string_view> EventKinds() {
  return NamesOf(std::make_index_sequence<std::variant_size_v<core::Fact>>());
}

std::string DetailOf(const wire::JobEvent& event, const std::string& name) {
  const auto found = event.details.find(name);
  return found == event.details.end() ? "" : found->second;
}

std::string ReasonTold::Shorten(const wire::JobEvent& event) {
  const bool tells_of_an_end = event.kind == "stop_decided" || event.kind == "job_finished" ||
                               DetailOf(event, "rung") == "stop";
  const size_t at = event.sentence.find(": ");
  if (!tells_of_an_end || at == std::string::npos) return event.sentence;
  std::string reason = event.sentence.substr(at);
  const bool is_told = std::exchange(reason_, std::move(reason)) == event.sentence.substr(at);
  return is_told ? event.sentence.substr(0, at) : event.sentence;
}

std::string EventLine(const wire::JobEvent& event) { return EventLine(event, event.sentence); }

std::string EventLine(const wire::JobEvent& event, const std::string& sentence) {
  constexpr size_t kSeqWidth = 5;
  constexpr size_t kKindWidth = 16;
  const std::string seq = std::to_string(event.seq);
  const size_t indent = seq.size() < kSeqWidth ? kSeqWidth - seq.size() : 0;
  return std::string(indent, ' ') + seq + "  " + TimeOfDay(event.time_ns) + "  " +
         Pad(event.kind, kKindWidth) + "  " + Visible(sentence);
}

std::string ClipTo(std::string text, size_t width) { return width == 0 ? text : Clip(text, width); }

Instant WallNow() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return Instant::FromNanoseconds(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

}  // namespace paceline::cli
