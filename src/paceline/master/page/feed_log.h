#pragma once

// The newest events of the page's feed, for readers that come back.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "paceline/wire/messages.h"

namespace paceline::master {

// One server-sent event with the sequence number in the journal as its id.
std::string FeedFrame(const wire::JobEvent& event);

class FeedLog {
 public:
  static constexpr size_t kBytesMax = 256 << 10;

  // The first event will be the one after `seq`.
  void StartAfter(uint64_t seq);
  void Add(uint64_t seq, std::string frame);

  // The events after `seq`, the last one that a reader has. None: some of them are not kept, so the
  // reader needs a new picture of the job. An event that only the journal has comes later.
  std::optional<std::string> After(uint64_t seq) const;

  uint64_t newest() const { return oldest_before_ + frames_.size(); }

 private:
  uint64_t oldest_before_ = 0;  // frames_[0] is the event after this one
  size_t bytes_ = 0;
  std::deque<std::string> frames_;
};

}  // namespace paceline::master
