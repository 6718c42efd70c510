#pragma once

// The mapped arena of one rank (model/arena_layout.h). The first process makes the file. Every
// later process of the same job, rank, user and boot finds it; all others are refused.
//
// One process writes images and one reads them; each may be restarted. A reader claims an image
// (kSealed → kReading). A writer never takes a claim away, so bytes do not change under a reader.
// The next reader takes over the claim of a dead one.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/result.h"
#include "paceline/model/arena_layout.h"

namespace paceline::ckpt {

struct ArenaIdentity {
  std::string job_id;
  std::string boot_id;
  uint32_t rank = 0;
};

struct ArenaSize {
  uint64_t image_bytes = 0;  // the largest file with its notes; rounded up
  uint32_t slot_count = 3;
};

class Arena {
 public:
  // Makes the file at `path`, or opens it if it has this identity and at least this size. A file
  // that is damaged or too small is replaced, unless another identity owns it. Reserve finds the
  // memory of a slot before any write, so a full file system is an error there and not a SIGBUS.
  // kFull: there is no room now. kNotOurs: the file is of another job, rank, user or boot.
  static Result<std::unique_ptr<Arena>> OpenOrMake(const std::string& path,
                                                   const ArenaIdentity& identity,
                                                   const ArenaSize& size);
  // kNotFound, kNotOurs as above, or kDamaged for a wrong header.
  static Result<std::unique_ptr<Arena>> Open(const std::string& path,
                                             const ArenaIdentity& identity);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The bytes that OpenOrMake reserves for this size.
  static uint64_t BytesFor(const ArenaSize& size);

  uint64_t image_bytes_max() const { return header().image_bytes; }
  uint32_t slot_count() const { return header().slot_count; }

  // ---- the writer ----

  // Reserves the slot's memory in the file system and maps it, at about a second a GiB; otherwise
  // the first save would pay for it. Later calls only map. Changes no byte. Safe beside Save and
  // readers, in one thread at a time. kFull: the slot stays unreserved and its room is given back.
  Result<void> Reserve(uint32_t slot);
  // The same for the next piece of the slot, after its first `*done` bytes. Moves `*done` on; after
  // a failure it is 0 again. True: the slot is complete.
  Result<bool> ReservePiece(uint32_t slot, uint64_t* done);
  // Frees the slot's memory for other programs, and its image with it.
  void GiveBack(uint32_t slot);
  bool IsReserved(uint32_t slot) const;

  // Called when a writer starts: frees the slots that a dead writer was filling.
  void ForgetUnfinished();
  // A slot to fill, in state kWriting. None: every slot is being read or holds an image to keep.
  std::optional<uint32_t> BeginWrite(std::optional<SavedStep> keep = {});
  std::byte* image(uint32_t slot) { return memory_ + ImageAt(slot); }
  // Maps a part of a reserved slot, because faults page by page take several times as long.
  void MapAhead(const std::byte* begin, uint64_t bytes);
  // Makes a filled slot visible as an image. The hashes are those of its chunks. Sets the roots of
  // `image`.
  void Seal(ArenaImage image, std::span<const uint64_t> file_hashes,
            std::span<const uint64_t> notes_hashes);
  void GiveUp(uint32_t slot);
  // The first save whose image must stay; see SetHold.
  std::optional<SavedStep> hold() const;

  // ---- readers ----

  // All sealed images, the newest first.
  std::vector<ArenaImage> Sealed() const;
  // Returns true if `image` is still there. Its bytes do not change until EndRead.
  bool BeginRead(const ArenaImage& image);
  void EndRead(const ArenaImage& image);
  // Called when a reader starts: drops the claims of a dead reader.
  void ForgetReaders();
  std::span<const std::byte> FileOf(const ArenaImage& image) const;
  std::span<const std::byte> NotesOf(const ArenaImage& image) const;
  std::vector<uint64_t> FileHashesOf(const ArenaImage& image) const;
  std::vector<uint64_t> NotesHashesOf(const ArenaImage& image) const;
  // The mapped file, and the offset of a slot's image in it. The notes follow at NotesAt.
  int fd() const { return fd_.get(); }
  uint64_t ImageOffset(uint32_t slot) const { return ImageAt(slot); }
  // The first image of save `from` or later must stay until the next call.
  void SetHold(std::optional<SavedStep> from);

 private:
  Arena(Fd fd, std::byte* memory, uint64_t size)
      : fd_(std::move(fd)), memory_(memory), size_(size) {}
  static Result<std::unique_ptr<Arena>> Map(Fd fd, uint64_t size);
  static Result<std::unique_ptr<Arena>> Make(const std::string& path, const ArenaIdentity& identity,
                                             const ArenaSize& size);
  Result<void> CheckHeader(const ArenaIdentity& identity) const;

  const ArenaHeader& header() const { return *reinterpret_cast<const ArenaHeader*>(memory_); }
  ArenaSlot& slot(uint32_t index) const;
  uint64_t* hashes(uint32_t index) const;
  uint64_t ImageAt(uint32_t index) const;
  ArenaSlotView Look(uint32_t index) const;
  void SetState(uint32_t index, ArenaSlotState state);

  void MapPages(uint64_t at, uint64_t bytes);

  const Fd fd_;
  std::byte* const memory_;
  const uint64_t size_;
};

}  // namespace paceline::ckpt
