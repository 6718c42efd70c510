#pragma once

// For tests: two ranks that save one tensor, split along its first dimension, to a store.

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/test_dir.h"
#include "paceline/ckpt/image/arena.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/image/save.h"
#include "paceline/ckpt/storage/storage.h"

namespace paceline::ckpt {

// Tests try every n-th fault or crash, because all take tens of CPU seconds. PACELINE_EVERY_FAULT=1
// in the environment tries all.
inline uint64_t FaultStride() { return std::getenv("PACELINE_EVERY_FAULT") != nullptr ? 1 : 7; }

class SavedRanks {
 public:
  // With `frozen_bytes`, rank 0 also has a frozen tensor of that size, whose bytes never change.
  explicit SavedRanks(size_t frozen_bytes = 0) : frozen_(frozen_bytes, std::byte{99}) {}

  // Changes its frozen tensor.
  void Thaw() { frozen_.assign(frozen_.size(), std::byte{98}); }

  // Saves `rows` rows of the tensor, beginning at row `at`. Each byte is step + 1.
  void Save(uint32_t rank, int64_t step, uint64_t at, uint64_t rows) {
    std::vector<TensorBox> boxes = {
        {.key = "w", .dtype = DType::kU8, .shape = {rows, 1000}, .offset = {at, 0}}};
    const std::vector<std::byte> bytes(rows * 1000, static_cast<std::byte>(step + 1));
    std::vector<const void*> sources = {bytes.data()};
    if (rank == 0 && !frozen_.empty()) {
      boxes.push_back(
          {.key = "a", .dtype = DType::kU8, .shape = {frozen_.size()}, .is_frozen = true});
      sources.push_back(frozen_.data());
    }
    const Image layout = *LayOut(boxes, {});
    const std::string notes =
        "{\"schema\":\"paceline.notes/1\",\"rank\":" + std::to_string(rank) + "}";
    // A new arena, because a test may save a lower step again.
    const std::string path = dir_.path() + "/a" + std::to_string(rank);
    ::unlink(path.c_str());
    auto arena = *Arena::OpenOrMake(path, {"j", "b", rank}, {layout.size + 100'000, 2});
    for (const uint32_t slot : {0u, 1u}) ASSERT_TRUE(arena->Reserve(slot).ok());
    ASSERT_TRUE(ckpt::Save(arena.get(), layout, sources,
                           {.saved = {1, step}, .world_size = 2, .notes = notes})
                    .ok());
    arenas_[rank] = std::move(arena);
  }

  Result<void> Write(Store* store, uint32_t rank, int64_t step, uint32_t file_of,
                     uint64_t branch = 0) const {
    const Arena& arena = *arenas_[rank];
    const ArenaImage image = arena.Sealed().front();
    MemorySource file(arena.FileOf(image));
    MemorySource notes(arena.NotesOf(image));
    return WriteShard(store,
                      {.name = NameOf(step, branch),
                       .job_id = "job",
                       .saved = {1, step, branch},
                       .rank = rank,
                       .file_of = file_of},
                      {.file = &file,
                       .file_hashes = arena.FileHashesOf(image),
                       .notes = &notes,
                       .notes_hashes = arena.NotesHashesOf(image)},
                      nullptr);
  }

  static std::string NameOf(int64_t step, uint64_t branch = 0) {
    return CheckpointNameOf({1, step, branch});
  }

  static CommitPlace Place(int64_t step, bool is_shared = false, uint64_t branch = 0) {
    return {.order = {.saved = {1, step, branch},
                      .world_size = 2,
                      .name = NameOf(step, branch),
                      .shards = {{Rank(0), Rank(0)}, {Rank(1), Rank(is_shared ? 0 : 1)}}},
            .job_id = "job"};
  }

  // Writes and commits a checkpoint as agents do, half of the tensor from each rank. Returns the
  // first failure.
  Result<void> SaveWhole(Store* store, int64_t step, uint64_t branch = 0) {
    Save(0, step, 0, 10);
    Save(1, step, 10, 10);
    RETURN_IF_ERROR(Write(store, 0, step, 0, branch));
    RETURN_IF_ERROR(Write(store, 1, step, 1, branch));
    const CommitPlace place = Place(step, false, branch);
    const Result<Manifest> committed = Commit(store, place);
    if (!committed.ok()) return committed.failure();
    RemoveParts(store, place.order);
    return {};
  }

  // Reads all checkpoints and returns the newest one's step. -1: there is none. -2: a checkpoint in
  // the list is incomplete or has a byte of another step.
  static int64_t WholeNewest(Store* store) {
    const auto all = List(store);
    if (!all.ok()) return -2;
    for (const Listed& one : *all) {
      if (!VerifyCheckpoint(store, one.name).empty()) return -2;
      for (const uint32_t rank : {0u, 1u}) {
        const ManifestFile* file = one.manifest.Find(one.manifest.Of(rank)->file);
        auto source = store->Open(one.name + "/" + file->name, file->bytes);
        if (!source.ok()) return -2;
        const auto last = (*source)->Chunk(file->hashes.size() - 1);
        if (!last.ok() || last->back() != static_cast<std::byte>(one.manifest.step + 1)) return -2;
      }
    }
    const auto newest = Newest(store);
    if (!newest.ok()) return -2;
    return newest->has_value() ? (*newest)->saved.step : -1;
  }

  const TestDir& dir() const { return dir_; }

 private:
  const TestDir dir_{TestDir::InMemory()};
  std::vector<std::byte> frozen_;
  std::unique_ptr<Arena> arenas_[2];
};

}  // namespace paceline::ckpt
