#pragma once

// MANIFEST.json of a checkpoint in storage: its files, the hashes of their chunks, and the files of
// each rank. A folder without a manifest is no checkpoint. docs/formats/manifest.md.
//
// Each rank's agent leaves a part (PARTNAME.part.json, with the same fields for one rank, and the
// header of its file). The node that commits combines the parts without opening the files.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/model/saved_step.h"

namespace paceline::ckpt {

struct ManifestFile {
  std::string name;
  uint64_t bytes = 0;
  std::vector<uint64_t> hashes;  // of its chunks; see ckpt/image/chunk_copy.h
  std::string head;              // in a part: the header of the rank's own file, as in Image
  // In a part: the hash of each tensor of `head`; see ckpt/storage/tensor_contents.h. Empty:
  // unknown.
  std::vector<uint64_t> contents = {};
  bool operator==(const ManifestFile&) const = default;
};

struct ManifestRank {
  uint32_t rank = 0;
  std::string file;   // with its tensors; several ranks may share one
  std::string notes;  // its small state
  // The file with its frozen tensors; "": there is none.
  std::string frozen = {};
  bool operator==(const ManifestRank&) const = default;
};

// Tensors that several ranks saved under one name as the same part of a whole, but with other
// bytes: pipeline stages, or statistics of single ranks. The names are sorted.
struct Differing {
  std::vector<std::string> parameters;  // and their optimizer state
  std::vector<std::string> others;      // buffers, and tensors outside of modules
  bool operator==(const Differing&) const = default;
};

struct Manifest {
  std::string job_id;
  uint64_t generation = 0;
  int64_t step = 0;
  uint64_t branch = 0;
  uint32_t world_size = 0;  // 0 in a part
  std::vector<ManifestFile> files;
  std::vector<ManifestRank> ranks;
  Differing differing = {};  // in a part: of files that were linked, not written
  bool operator==(const Manifest&) const = default;

  SavedStep saved() const { return {.generation = generation, .step = step, .branch = branch}; }
  const ManifestFile* Find(std::string_view name) const;
  const ManifestRank* Of(uint32_t rank) const;
  uint64_t bytes() const;
};

inline constexpr char kManifestName[] = "MANIFEST.json";
// Enough for the hashes of 40 TB.
inline constexpr uint64_t kManifestBytesMax = uint64_t{256} << 20;

// Ends with a checksum of the text.
std::string ToText(const Manifest& manifest);

// kInvalid: malformed text, names that are no plain file names, unlisted files, sizes that do not
// fit the hashes. kDamaged: the checksum is wrong. kNotHere: a newer version wrote it; see IsNewer.
// kTooLarge: parsed, it would take more memory than any manifest of that size.
Result<Manifest> ParseManifest(std::string_view text);

// Checks "schema" against `own`, such as "paceline.checkpoint/1". kNotHere: it has a higher number.
// kInvalid: anything else. `what` names the text in messages: "the manifest".
Result<void> CheckSchema(std::string_view schema, std::string_view own, std::string_view what);

// Whether CheckSchema failed because of a newer version. (A file system's kNotHere has an errno.)
inline bool IsNewer(const Failure& failure) {
  return failure.kind == FailureKind::kNotHere && failure.error_number == 0;
}

// Whether a manifest may contain this file name: [A-Za-z0-9._-]{1,128}, no leading dot.
bool IsPlainName(std::string_view name);

}  // namespace paceline::ckpt
