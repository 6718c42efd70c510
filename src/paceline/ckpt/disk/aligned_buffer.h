#pragma once

// Page-aligned memory, as direct I/O needs it.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "paceline/base/check.h"

namespace paceline::ckpt {

class AlignedBuffer {
 public:
  // A buffer of at least `bytes` bytes. A later call keeps the content unless it asks for more.
  std::byte* Get(size_t bytes) {
    constexpr size_t kPage = 4096;
    if (bytes > size_) {
      size_ = (bytes + kPage - 1) / kPage * kPage;
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, size_)));
      CHECK(memory_ != nullptr);
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t size_ = 0;
};

}  // namespace paceline::ckpt
