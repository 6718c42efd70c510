#pragma once

// What a save needs of an accelerator: copies from its memory that run beside the training.
//
// A device executes each stream in order, independently of other streams. The copies of a save have
// their own stream. These calls order it against the training's streams; none of them makes the
// caller wait, except Await.

#include <cstddef>
#include <cstdint>

#include "paceline/base/result.h"

namespace paceline::client {

// A stream of the training, as its framework names it; 0 is the device's default stream.
using StreamHandle = uint64_t;

// A point in the order of a save's copies.
enum class CopyMark { kEarly, kAll };

class Device {
 public:
  virtual ~Device() = default;

  // Lets the device write to this memory directly and at full speed. The memory must stay mapped
  // until Unpin. Copies to unpinned memory also work, but make the caller wait.
  virtual Result<void> Pin(std::byte* memory, uint64_t bytes) = 0;
  virtual void Unpin(std::byte* memory) = 0;

  // Called once in each thread that orders copies.
  virtual Result<void> Enter() = 0;
  // Copies ordered from now on begin after the current work of `stream`.
  virtual Result<void> StartAfter(StreamHandle stream) = 0;
  virtual Result<void> Copy(std::byte* target, const void* source, uint64_t bytes) = 0;
  // Sets `mark` behind the copies ordered so far. Replaces its former position.
  virtual Result<void> SetMark(CopyMark mark) = 0;
  // Later work of `stream` begins after the copies before `mark`.
  virtual Result<void> HoldBack(StreamHandle stream, CopyMark mark) = 0;
  // Waits until the copies before `mark` are done.
  virtual Result<void> Await(CopyMark mark) = 0;
};

}  // namespace paceline::client
