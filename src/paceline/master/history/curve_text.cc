#include "paceline/master/history/curve_text.h"

#include <charconv>
#include <cstddef>

#include "paceline/base/number_text.h"

namespace paceline::master {
namespace {

constexpr uint32_t kNodesMax = 1'000'000;
constexpr double kStepMost = 1e6;  // seconds

// Takes the text up to `mark` from the front; all of it if there is no mark.
std::string_view TakeUpTo(char mark, std::string_view* text) {
  const size_t at = text->find(mark);
  const std::string_view part = text->substr(0, at);
  *text = at == std::string_view::npos ? std::string_view() : text->substr(at + 1);
  return part;
}

template <class Number>
bool ReadWhole(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<SizeSpeed> SpeedFromText(std::string_view text) {
  SizeSpeed speed;
  const bool is_read = ReadWhole(TakeUpTo(':', &text), &speed.nodes) &&
                       ReadWhole(TakeUpTo(':', &text), &speed.step_seconds) &&
                       ReadWhole(TakeUpTo(':', &text), &speed.error) &&
                       ReadWhole(text, &speed.windows);
  const bool is_sane = speed.nodes >= 1 && speed.nodes <= kNodesMax && speed.step_seconds > 0 &&
                       speed.step_seconds <= kStepMost && speed.error >= 0 &&
                       speed.error <= kStepMost;  // false for NaN, too
  return is_read && is_sane ? std::optional(speed) : std::nullopt;
}

}  // namespace

std::string CurveToText(const std::vector<SizeSpeed>& curve) {
  std::string text;
  size_t count = 0;
  for (const SizeSpeed& speed : curve) {
    if (++count > kSizesMax) break;
    text += (text.empty() ? "" : ",") + std::to_string(speed.nodes) + ":" +
            NumberText(speed.step_seconds) + ":" + NumberText(speed.error) + ":" +
            std::to_string(speed.windows);
  }
  return text;
}

std::optional<std::vector<SizeSpeed>> CurveFromText(std::string_view text) {
  std::vector<SizeSpeed> curve;
  while (!text.empty()) {
    const std::optional<SizeSpeed> speed = SpeedFromText(TakeUpTo(',', &text));
    const bool rises = curve.empty() || (speed.has_value() && speed->nodes > curve.back().nodes);
    if (!speed.has_value() || !rises || curve.size() == kSizesMax) return std::nullopt;
    curve.push_back(*speed);
  }
  return curve;
}

}  // namespace paceline::master
