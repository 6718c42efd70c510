#include "paceline/ckpt/storage/whole.h"

#include <algorithm>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/base/utf8.h"
#include "paceline/ckpt/format/tiling.h"
#include "paceline/ckpt/storage/notes_file.h"
#include "paceline/ckpt/storage/storage.h"

namespace paceline::ckpt {
namespace {

Result<std::string> NotesOf(Store* store, const std::string& folder, const Manifest& manifest) {
  const ManifestRank* rank = manifest.Of(0);
  const ManifestFile* file = rank == nullptr ? nullptr : manifest.Find(rank->notes);
  if (file == nullptr) return Failure{FailureKind::kInvalid, "rank 0 has no notes"};
  ASSIGN_OR_RETURN(auto source, store->Open(Concat(folder, "/", file->name), file->bytes));
  ASSIGN_OR_RETURN(std::string text, ReadAll(source.get(), file->hashes, kNotesBytesMax));
  if (const Result<void> checked = CheckNotes(text); !checked.ok()) {
    return Annotate(checked.failure(), file->name);
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<WholeReader>> WholeReader::Open(Store* store, const std::string& name) {
  auto reader = std::unique_ptr<WholeReader>(new WholeReader);
  ASSIGN_OR_RETURN(reader->manifest_, ReadManifest(store, name));
  ASSIGN_OR_RETURN(reader->notes_, NotesOf(store, name, reader->manifest_));
  for (const ManifestFile& file : reader->manifest_.files) {
    if (!file.name.ends_with(".safetensors")) continue;
    const Result<void> added = reader->Add(store, name, file);
    if (!added.ok()) return Annotate(added.failure(), file.name);
  }
  std::vector<TensorBox> boxes;
  for (const auto& [key, parts] : reader->parts_) {
    for (const Part& part : parts) boxes.push_back(part.box);
  }
  RETURN_IF_ERROR(CheckTiling(std::move(boxes), OtherShapes::kRefused));
  for (auto& [key, tensor] : reader->tensors_) {
    tensor.bytes = BytesOf(tensor.dtype);
    for (const uint64_t extent : tensor.shape) tensor.bytes *= extent;
  }
  return reader;
}

Result<void> WholeReader::Add(Store* store, const std::string& folder, const ManifestFile& file) {
  ASSIGN_OR_RETURN(auto source, store->Open(Concat(folder, "/", file.name), file.bytes));
  ASSIGN_OR_RETURN(Image head, ReadHead(source.get(), file.hashes));
  for (TensorBox& box : head.boxes) {
    std::vector<Part>& parts = parts_[box.key];
    WholeTensor& tensor = tensors_[box.key];
    if (parts.empty()) {
      tensor.dtype = box.dtype;
      tensor.shape.assign(box.shape.size(), 0);
    }
    if (box.dtype != tensor.dtype || box.shape.size() != tensor.shape.size()) {
      return Failure{FailureKind::kInvalid,
                     Concat("tensor \"", CleanText(box.key), "\" has two types or ranks")};
    }
    const bool is_replica = std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
      return part.box.offset == box.offset && part.box.shape == box.shape;
    });
    if (is_replica) continue;
    for (size_t i = 0; i < box.shape.size(); ++i) {
      tensor.shape[i] = std::max(tensor.shape[i], box.offset[i] + box.shape[i]);
    }
    parts.push_back({files_.size(), std::move(box)});
  }
  files_.push_back({std::move(source), file.hashes});
  return {};
}

Result<void> WholeReader::Read(std::span<const Wanted> wanted) {
  std::vector<std::vector<Target>> targets(files_.size());
  for (const Wanted& one : wanted) {
    const auto found = parts_.find(one.key);
    if (found == parts_.end()) {
      return Failure{FailureKind::kNotFound, Concat("no tensor \"", CleanText(one.key), "\"")};
    }
    const WholeTensor& tensor = tensors_.at(one.key);
    for (const Part& part : found->second) {
      targets[part.file].push_back({part.box, one.data,
                                    Region{.from = std::vector<uint64_t>(part.box.shape.size(), 0),
                                           .extent = part.box.shape,
                                           .shape = tensor.shape,
                                           .to = part.box.offset}});
    }
  }
  for (size_t i = 0; i < files_.size(); ++i) {
    if (targets[i].empty()) continue;
    RETURN_IF_ERROR(Restore(files_[i].source.get(), files_[i].hashes, std::move(targets[i])));
  }
  return {};
}

std::vector<std::vector<std::string>> Batches(const std::map<std::string, WholeTensor>& tensors,
                                              uint64_t bytes_max) {
  std::vector<std::vector<std::string>> batches;
  uint64_t bytes = 0;
  for (const auto& [key, tensor] : tensors) {
    if (batches.empty() || bytes + tensor.bytes > bytes_max) {
      batches.emplace_back();
      bytes = 0;
    }
    batches.back().push_back(key);
    bytes += tensor.bytes;
  }
  return batches;
}

}  // namespace paceline::ckpt
