#pragma once

// MANIFEST.json of a checkpoint in storage: which files it has, what every byte of them hashes to,
// and which rank takes what. A folder without one is no checkpoint. docs/formats/manifest.md.
//
// Each rank's agent leaves a part (PARTNAME.part.json, the same words for one rank alone, and the
// header of its file); the node that commits puts the parts together and need not open the files.

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
  std::string head;              // in a part, of its own tensors: the file's header, as in Image
  // In a part, for each tensor of `head`: hash of its bytes; see ckpt/storage/tensor_contents.h.
  // Empty: not known.
  std::vector<uint64_t> contents = {};
  bool operator==(const ManifestFile&) const = default;
};

struct ManifestRank {
  uint32_t rank = 0;
  std::string file;   // that holds its tensors; several ranks may share one
  std::string notes;  // its small state
  // The second file of its image, with what is frozen; "": there is none.
  std::string frozen = {};
  bool operator==(const ManifestRank&) const = default;
};

// Tensors that several ranks saved under one name and as the same part of one whole, with other
// bytes: stages of a pipeline, or statistics that each rank keeps for itself. Names in order.
struct Differing {
  std::vector<std::string> parameters;  // and the optimizer's moments of such
  std::vector<std::string> others;      // buffers, and tensors of no module
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
  Differing differing = {};  // in a part: of files that were linked and not written
  bool operator==(const Manifest&) const = default;

  SavedStep saved() const { return {.generation = generation, .step = step, .branch = branch}; }
  const ManifestFile* Find(std::string_view name) const;
  const ManifestRank* Of(uint32_t rank) const;
  uint64_t bytes() const;
};

inline constexpr char kManifestName[] = "MANIFEST.json";
// Of 40 TB, in hashes.
inline constexpr uint64_t kManifestBytesMax = uint64_t{256} << 20;

// Ends with a check of its own text.
std::string ToText(const Manifest& manifest);

// kInvalid for whatever is not such a text: also names that are no plain file names, files that
// nobody lists, sizes that do not fit the hashes. kDamaged: the check does not hold. kNotHere: a
// newer version wrote it; see IsNewer. kTooLarge: parsed, it would take more memory than a manifest
// of its bytes does.
Result<Manifest> ParseManifest(std::string_view text);

// Of a text whose "schema" should be `own`, "paceline.checkpoint/1": kNotHere when it has a higher
// number, kInvalid for anything else. `what` is what the text is: "the manifest".
Result<void> CheckSchema(std::string_view schema, std::string_view own, std::string_view what);

// The failure of CheckSchema for a newer version. (A file system's kNotHere has an error number.)
inline bool IsNewer(const Failure& failure) {
  return failure.kind == FailureKind::kNotHere && failure.error_number == 0;
}

// A name that may stand in a manifest: [A-Za-z0-9._-]{1,128} without a leading dot.
bool IsPlainName(std::string_view name);

}  // namespace paceline::ckpt
