#pragma once

// What a save needs of an accelerator: copies from its memory that go on beside the training.
//
// A device works its streams off one entry after the other, each stream by itself. The copies of a
// save have a stream of their own; where it and a stream of the training must wait for each other
// is said here, and neither makes the caller wait.

#include <cstddef>
#include <cstdint>

#include "paceline/base/result.h"

namespace paceline::client {

// A stream of the training, as its framework names it; 0 is the device's default stream.
using StreamHandle = uint64_t;

// How far the copies of a save are: those before it have been ordered.
enum class CopyMark { kEarly, kAll };

class Device {
 public:
  virtual ~Device() = default;

  // Lets the device write there at full speed and without the processor. The memory stays mapped
  // until Unpin. Copies to memory that is not pinned work and make the caller wait.
  virtual Result<void> Pin(std::byte* memory, uint64_t bytes) = 0;
  virtual void Unpin(std::byte* memory) = 0;

  // Once in each thread that orders copies.
  virtual Result<void> Enter() = 0;
  // Copies that are ordered from now on begin when `stream` is done with what it was given so far.
  virtual Result<void> StartAfter(StreamHandle stream) = 0;
  virtual Result<void> Copy(std::byte* target, const void* source, uint64_t bytes) = 0;
  // Remembers what was ordered until now, in place of what the same mark meant before.
  virtual Result<void> SetMark(CopyMark mark) = 0;
  // What `stream` is given from now on begins when the copies before `mark` are done.
  virtual Result<void> HoldBack(StreamHandle stream, CopyMark mark) = 0;
  // Makes the caller wait for the copies before `mark`.
  virtual Result<void> Await(CopyMark mark) = 0;
};

}  // namespace paceline::client
