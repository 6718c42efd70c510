#include "paceline/client/image_reader.h"

#include <utility>

#include "paceline/ckpt/storage/image_files.h"
#include "paceline/ckpt/storage/notes_file.h"
#include "paceline/client/chunk_file.h"

namespace paceline::client {
namespace {

// Opens files of the checkpoint in `folder`, whose last path component is the checkpoint's name.
ckpt::FileOpener OpenerOf(const std::string& folder, const std::string& chunks) {
  using Opened = Result<std::unique_ptr<ckpt::ChunkSource>>;
  if (chunks.empty()) {
    return [folder](const ckpt::ManifestFile& file) -> Opened {
      ASSIGN_OR_RETURN(auto source, ckpt::FileSource::Open(folder + "/" + file.name, file.bytes));
      return std::unique_ptr<ckpt::ChunkSource>(std::move(source));
    };
  }
  const std::string name = folder.substr(folder.rfind('/') + 1);
  return [name, chunks](const ckpt::ManifestFile& file) -> Opened {
    return std::unique_ptr<ckpt::ChunkSource>(
        std::make_unique<ChunkFile>(chunks, name + "/" + file.name, file.bytes, file.hashes));
  };
}

}  // namespace

Result<std::unique_ptr<ImageReader>> ImageReader::Open(const InMemory& place) {
  auto reader = std::unique_ptr<ImageReader>(new ImageReader);
  ASSIGN_OR_RETURN(reader->arena_, ckpt::Arena::Open(place.path, place.identity));
  const ckpt::Arena& arena = *reader->arena_;
  for (const ArenaImage& image : arena.Sealed()) {
    if (image.saved() != place.saved) continue;
    reader->source_ = std::make_unique<ckpt::MemorySource>(arena.FileOf(image));
    reader->hashes_ = arena.FileHashesOf(image);
    reader->notes_ = std::make_unique<ckpt::MemorySource>(arena.NotesOf(image));
    reader->notes_hashes_ = arena.NotesHashesOf(image);
    ASSIGN_OR_RETURN(reader->image_, ckpt::ReadHead(reader->source_.get(), reader->hashes_));
    return reader;
  }
  return Failure{FailureKind::kNotFound, Say(place.saved) + " is not in memory any more"};
}

Result<std::unique_ptr<ImageReader>> ImageReader::Open(const std::string& folder,
                                                       const ckpt::Manifest& manifest,
                                                       uint32_t rank, const std::string& chunks) {
  const ckpt::ManifestRank* of = manifest.Of(rank);
  const ckpt::ManifestFile* notes_file = of == nullptr ? nullptr : manifest.Find(of->notes);
  if (notes_file == nullptr) {
    return Failure{FailureKind::kInvalid,
                   "the manifest has nothing for rank " + std::to_string(rank)};
  }
  auto reader = std::unique_ptr<ImageReader>(new ImageReader);
  const ckpt::FileOpener open = OpenerOf(folder, chunks);
  ASSIGN_OR_RETURN(ckpt::OpenedImage opened, ckpt::OpenImage(open, manifest, rank));
  reader->source_ = std::move(opened.source);
  reader->hashes_ = std::move(opened.hashes);
  ASSIGN_OR_RETURN(reader->notes_, open(*notes_file));
  reader->notes_hashes_ = notes_file->hashes;
  ASSIGN_OR_RETURN(reader->image_, ckpt::ReadHead(reader->source_.get(), reader->hashes_));
  return reader;
}

Result<std::unique_ptr<ImageReader>> ImageReader::OpenPart(const std::string& folder,
                                                           uint32_t rank) {
  ASSIGN_OR_RETURN(const ckpt::Manifest part, ckpt::ReadPart(folder, rank));
  return Open(folder, part, rank);
}

Result<std::string> ImageReader::Notes() {
  return ckpt::ReadAll(notes_.get(), notes_hashes_, ckpt::kNotesBytesMax);
}

Result<std::string> ImageReader::ReadNotes(const std::string& folder,
                                           const ckpt::Manifest& manifest, uint32_t rank) {
  const ckpt::ManifestRank* of = manifest.Of(rank);
  const ckpt::ManifestFile* file = of == nullptr ? nullptr : manifest.Find(of->notes);
  if (file == nullptr) {
    return Failure{FailureKind::kInvalid,
                   "the manifest has nothing for rank " + std::to_string(rank)};
  }
  ASSIGN_OR_RETURN(auto notes, ckpt::FileSource::Open(folder + "/" + file->name, file->bytes));
  return ckpt::ReadAll(notes.get(), file->hashes, ckpt::kNotesBytesMax);
}

Result<void> ImageReader::Restore(std::vector<ckpt::Target> targets) {
  return ckpt::Restore(source_.get(), hashes_, std::move(targets));
}

}  // namespace paceline::client
