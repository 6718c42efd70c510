#include "paceline/master/page/feed_log.h"

#include <utility>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/base/utf8.h"

namespace paceline::master {
namespace {

constexpr size_t kSentenceBytesMax = 400;

}  // namespace

std::string FeedFrame(const wire::JobEvent& event) {
  const std::string sentence = CleanText(event.sentence.substr(0, kSentenceBytesMax));
  const nlohmann::json data = {{"seq", event.seq},
                               {"time", static_cast<double>(event.time_ns) / 1e9},
                               {"kind", event.kind},
                               {"sentence", sentence}};
  return Concat("id: ", event.seq, "\nevent: record\ndata: ", PrintJson(data), "\n\n");
}

void FeedLog::StartAfter(uint64_t seq) {
  frames_.clear();
  bytes_ = 0;
  oldest_before_ = seq;
}

void FeedLog::Add(uint64_t seq, std::string frame) {
  if (seq != newest() + 1) StartAfter(seq - 1);
  bytes_ += frame.size();
  frames_.push_back(std::move(frame));
  while (bytes_ > kBytesMax) {
    bytes_ -= frames_.front().size();
    frames_.pop_front();
    ++oldest_before_;
  }
}

std::optional<std::string> FeedLog::After(uint64_t seq) const {
  if (seq < oldest_before_) return std::nullopt;
  std::string text;
  for (uint64_t at = seq - oldest_before_; at < frames_.size(); ++at) text += frames_[at];
  return text;
}

}  // namespace paceline::master
