#pragma once

// Memory that begins at a page, as the kernel wants it for writes past the page cache.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "paceline/base/check.h"

namespace paceline::ckpt {

class AlignedBuffer {
 public:
  // At least so many bytes, the same ones at every call with that number or less.
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
