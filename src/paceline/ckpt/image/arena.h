#pragma once

// The mapped arena of one rank (model/arena_layout.h): made by whoever comes first, found again by
// every later process of the same job, rank, user and boot, and refused by all others.
//
// One process writes images, one reads them; each may be a later incarnation of itself. Reading
// needs a claim (kSealed → kReading), which a writer never takes away, so bytes do not change under
// a reader. A claim of a reader that died is taken over by the next reader.

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
  uint64_t image_bytes = 0;  // the largest file with its notes; rounded up as images are
  uint32_t slot_count = 3;
};

class Arena {
 public:
  // Makes the file at `path`, or opens it when it is this identity's and of at least that size.
  // The memory of a slot is found by Reserve, before anyone may write there: a full file system is
  // an error there, and here when it can be seen already (kFull), and never a SIGBUS later. A file
  // that is too small or damaged, and no one's claim, is replaced.
  // kNotOurs: it is another job's, rank's, user's or boot's.
  static Result<std::unique_ptr<Arena>> OpenOrMake(const std::string& path,
                                                   const ArenaIdentity& identity,
                                                   const ArenaSize& size);
  // kNotFound, kNotOurs as above, or kDamaged for a header that does not hold.
  static Result<std::unique_ptr<Arena>> Open(const std::string& path,
                                             const ArenaIdentity& identity);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // What OpenOrMake with these would reserve.
  static uint64_t BytesFor(const ArenaSize& size);

  uint64_t image_bytes_max() const { return header().image_bytes; }
  uint32_t slot_count() const { return header().slot_count; }

  // ---- the writer ----

  // Takes the memory of that slot from the file system and maps it, which costs about a second a
  // GiB and which the first save there would pay otherwise; later than the first time it only maps.
  // Changes no byte. Beside Save and readers, but only one thread at a time. kFull: the slot stays
  // unreserved, and what it had taken is given back.
  // Once `is_stopped` is set, a slot that is not wholly found goes back: kSystem.
  Result<void> Reserve(uint32_t slot, const std::atomic<bool>* is_stopped = nullptr);
  bool IsReserved(uint32_t slot) const;

  // After the start of a writer: frees what a writer that died was filling.
  void ForgetUnfinished();
  // A slot to fill, in state kWriting. Nothing: every slot is being read or holds what must stay.
  std::optional<uint32_t> BeginWrite(std::optional<SavedStep> keep = {});
  std::byte* image(uint32_t slot) { return memory_ + ImageAt(slot); }
  // Maps that part of a slot that is reserved, so that filling it does not fault page by page,
  // which takes several times as long.
  void MapAhead(const std::byte* begin, uint64_t bytes);
  // Makes what was filled visible as a whole. The hashes are those of the chunks; the roots of
  // `image` are set here.
  void Seal(ArenaImage image, std::span<const uint64_t> file_hashes,
            std::span<const uint64_t> notes_hashes);
  void GiveUp(uint32_t slot);
  // The save from which on the next image must stay; see SetHold.
  std::optional<SavedStep> hold() const;

  // ---- readers ----

  // All whole images, the newest first.
  std::vector<ArenaImage> Sealed() const;
  // True when `image` is still there and will not change before EndRead.
  bool BeginRead(const ArenaImage& image);
  void EndRead(const ArenaImage& image);
  // After the start of a reader: takes back the claims of one that died.
  void ForgetReaders();
  std::span<const std::byte> FileOf(const ArenaImage& image) const;
  std::span<const std::byte> NotesOf(const ArenaImage& image) const;
  std::vector<uint64_t> FileHashesOf(const ArenaImage& image) const;
  std::vector<uint64_t> NotesHashesOf(const ArenaImage& image) const;
  // The file that is mapped, and where in it a slot's image begins; its notes are NotesAt later.
  int fd() const { return fd_.get(); }
  uint64_t ImageOffset(uint32_t slot) const { return ImageAt(slot); }
  // The writer's first image of that save or a later one stays until this is called again.
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
