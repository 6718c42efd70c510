#pragma once

// The node's progress page as a mapped file: made or adopted by the agent, read by the agent and
// by whoever wants to know how a node's ranks do without asking anybody (the launcher does).
// Layout and rules: docs/formats/progress_page.md.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/agent/ranks/pids.h"
#include "paceline/model/node.h"
#include "paceline/model/progress_page.h"

namespace paceline::agent {

class PageFile {
 public:
  // Adopts the page at `path` when it is of the same job, node and boot and has enough slots;
  // otherwise writes a new one. The identity's texts are only read here.
  static absl::StatusOr<std::unique_ptr<PageFile>> AdoptOrMake(const std::string& path,
                                                               const PageIdentity& identity);
  // Maps an existing page for reading. NOT_FOUND or DATA_LOSS.
  static absl::StatusOr<std::unique_ptr<PageFile>> Open(const std::string& path);

  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;
  ~PageFile();

  bool was_adopted() const { return was_adopted_; }
  uint32_t slot_count() const { return page_->slot_count; }
  bool is_of_this_boot() const { return PageText(page_->boot_id) == BootId(); }

  // Empty when the slot never had a rank, is out of range or is being prepared.
  std::optional<SlotReading> Read(uint32_t slot) const;

 private:
  PageFile() = default;
  void* memory_ = nullptr;
  size_t size_bytes_ = 0;
  const PageHeader* page_ = nullptr;
  bool was_adopted_ = false;
};

// What a slot says of its rank, as the master is told it. `exit` is left empty.
RankReport ReportOf(const SlotReading& reading);

inline ProcessId ProcessOf(const SlotReading& reading) {
  return {static_cast<pid_t>(reading.pid), reading.start_time_ticks};
}

// Living ranks of a page of this boot; 0 for any other page.
struct PageCensus {
  uint32_t living = 0;  // processes that exist
  uint32_t placed = 0;  // slots that were given a rank which did not end with status 0
};
PageCensus CountRanks(const PageFile& page);

}  // namespace paceline::agent
