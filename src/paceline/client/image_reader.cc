#include "paceline/client/image_reader.h"

#include <utility>

namespace paceline::client {
namespace {

constexpr uint64_t kNotesBytesMax = uint64_t{1} << 30;

}  // namespace

Result<std::unique_ptr<ImageReader>> ImageReader::Open(const InMemory& place) {
  auto reader = std::unique_ptr<ImageReader>(new ImageReader);
  ASSIGN_OR_RETURN(reader->arena_, ckpt::Arena::Open(place.path, place.identity));
  const ckpt::Arena& arena = *reader->arena_;
  for (const ArenaImage& image : arena.Sealed()) {
    if (image.generation != place.generation || image.step != place.step) continue;
    reader->source_ = std::make_unique<ckpt::MemorySource>(arena.FileOf(image));
    reader->hashes_ = arena.FileHashesOf(image);
    ckpt::MemorySource notes(arena.NotesOf(image));
    RETURN_IF_ERROR(reader->ReadHeads(&notes, arena.NotesHashesOf(image)));
    return reader;
  }
  return Failure{FailureKind::kNotFound,
                 "step " + std::to_string(place.step) + " is not in memory any more"};
}

Result<std::unique_ptr<ImageReader>> ImageReader::Open(const std::string& folder,
                                                       const ckpt::Manifest& manifest,
                                                       uint32_t rank) {
  const ckpt::ManifestRank* of = manifest.Of(rank);
  const ckpt::ManifestFile* file = of == nullptr ? nullptr : manifest.Find(of->file);
  const ckpt::ManifestFile* notes_file = of == nullptr ? nullptr : manifest.Find(of->notes);
  if (file == nullptr || notes_file == nullptr) {
    return Failure{FailureKind::kInvalid,
                   "the manifest has nothing for rank " + std::to_string(rank)};
  }
  auto reader = std::unique_ptr<ImageReader>(new ImageReader);
  ASSIGN_OR_RETURN(reader->source_, ckpt::FileSource::Open(folder + "/" + file->name, file->bytes));
  reader->hashes_ = file->hashes;
  ASSIGN_OR_RETURN(auto notes,
                   ckpt::FileSource::Open(folder + "/" + notes_file->name, notes_file->bytes));
  RETURN_IF_ERROR(reader->ReadHeads(notes.get(), notes_file->hashes));
  return reader;
}

Result<void> ImageReader::ReadHeads(ckpt::ChunkSource* notes,
                                    std::span<const uint64_t> notes_hashes) {
  ASSIGN_OR_RETURN(image_, ckpt::ReadHead(source_.get(), hashes_));
  ASSIGN_OR_RETURN(notes_, ckpt::ReadAll(notes, notes_hashes, kNotesBytesMax));
  return {};
}

Result<void> ImageReader::Restore(std::vector<ckpt::Target> targets) {
  return ckpt::Restore(source_.get(), hashes_, std::move(targets));
}

}  // namespace paceline::client
