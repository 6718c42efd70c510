// A progress page may have been written by anybody: reading it must never read past its end.

#include "paceline/model/progress_page.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // As mmap gives it: aligned, and no byte longer than the file.
  const std::align_val_t alignment{4096};
  auto* memory = static_cast<std::byte*>(::operator new(size > 0 ? size : 1, alignment));
  if (size > 0) std::memcpy(memory, data, size);
  std::string_view why;
  const paceline::PageHeader* page = paceline::CheckPage({memory, size}, &why);
  uint64_t sum = 0;
  for (uint32_t i = 0; page != nullptr && i < page->slot_count; ++i) {
    const auto reading = paceline::ReadSlot(paceline::SlotOf(*page, i));
    if (reading.has_value()) sum += reading->step_count;
  }
  if (page != nullptr) sum += paceline::PageText(page->job_id).size();
  ::operator delete(memory, alignment);
  return page == nullptr && why.empty() && sum == 0 ? -1 : 0;
}
