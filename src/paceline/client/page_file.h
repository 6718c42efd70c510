// A progress page made by another process, mapped into this one.
//
// Used by the training process and by the starter, through `bindings`. The file is checked before
// anything in it is used. Its size never changes, so the mapping stays valid as long as the object.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "paceline/base/result.h"
#include "paceline/model/progress_page.h"

namespace paceline::client {

enum class PageAccess { kRead, kWrite };

class PageFile {
 public:
  // kSystem when the file cannot be opened or mapped; kNotAPage when it is no page of this version.
  static Result<PageFile> Open(const std::string& path, PageAccess access);

  PageFile(PageFile&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), size_bytes_(other.size_bytes_) {}
  PageFile& operator=(PageFile&& other) noexcept;
  ~PageFile();

  const PageHeader& header() const { return *static_cast<const PageHeader*>(memory_); }

  // kBadSlot when the page has no such slot.
  Result<PageSlot*> Slot(uint32_t index) const;

 private:
  PageFile(void* memory, size_t size_bytes) : memory_(memory), size_bytes_(size_bytes) {}

  void* memory_;
  size_t size_bytes_;
};

// CLOCK_MONOTONIC now: the clock of every time on the page.
int64_t MonotonicNanoseconds();

}  // namespace paceline::client
