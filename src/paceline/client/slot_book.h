// The starter's end of the progress page: which process was started in a slot, and how it ended.
//
// The starter is one thread and the only writer of these words. A slot may be reused only when its
// former process is gone. The caller knows that, because it reaps the processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "paceline/base/result.h"
#include "paceline/client/page_file.h"

namespace paceline::client {

struct SlotOwner {
  uint64_t generation = 0;
  int32_t rank = -1;
  int32_t local_rank = -1;
  SlotStart how = SlotStart::kNone;
};

struct SlotProcess {
  int64_t pid = 0;
  uint64_t start_time_ticks = 0;
};

class SlotBook {
 public:
  // kNotOurs: the page belongs to another job or node. Also fails as PageFile::Open.
  static Result<SlotBook> Open(const std::string& path, std::string_view job_id,
                               std::string_view node);

  // Clears the slot for a new attempt and returns the attempt's number. The process does not exist
  // yet.
  Result<uint64_t> Begin(uint32_t slot, const SlotOwner& owner);
  Result<void> Running(uint32_t slot, const SlotProcess& process);
  // The start failed: the slot has no process.
  Result<void> Vacate(uint32_t slot);
  Result<void> Exited(uint32_t slot, int32_t wait_status, uint64_t maxrss_kib);
  // The process that the slot records as running; pid 0: none. It may have ended with a former
  // starter.
  Result<SlotProcess> Occupant(uint32_t slot) const;

 private:
  explicit SlotBook(PageFile page) : page_(std::move(page)) {}

  PageFile page_;
};

}  // namespace paceline::client
