#pragma once

// The node's progress page as a mapped file. The agent makes or adopts it. The agent and other
// programs, such as the launcher, read it without asking anyone. Layout and rules:
// docs/formats/progress_page.md.

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
  // Adopts the page at `path` if it has the same job, node and boot and enough slots; else writes a
  // new one. The identity's texts are only read here.
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

  // None if the slot never had a rank, does not exist, or is being prepared.
  std::optional<SlotReading> Read(uint32_t slot) const;

 private:
  PageFile() = default;
  void* memory_ = nullptr;
  size_t size_bytes_ = 0;
  const PageHeader* page_ = nullptr;
  bool was_adopted_ = false;
};

// A slot's content as a report for the master. `exit` stays empty.
RankReport ReportOf(const SlotReading& reading);

inline ProcessId ProcessOf(const SlotReading& reading) {
  return {static_cast<pid_t>(reading.pid), reading.start_time_ticks};
}

// Counts living ranks of a page of this boot; 0 for other pages.
struct PageCensus {
  uint32_t living = 0;  // processes that exist
  uint32_t placed = 0;  // slots whose rank did not end with status 0
};
PageCensus CountRanks(const PageFile& page);

}  // namespace paceline::agent
