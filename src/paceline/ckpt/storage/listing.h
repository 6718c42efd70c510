#pragma once

// Finds and verifies the checkpoints in a store (ckpt/store/store.h). ckpt/storage/storage.h writes
// and removes them.

#include <cerrno>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/storage/manifest.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/model/checkpoint.h"
#include "paceline/model/retention.h"

namespace paceline::ckpt {

// Whether it is a checkpoint's name: step-1200-g3, step-1200-g3-b1.
bool IsCheckpointName(std::string_view name);

// Fails with kInvalid, kDamaged or kNotFound.
Result<Manifest> ReadManifest(Store* store, const std::string& name);
// The same in a folder of a file system. ReadPart reads the part that a rank's agent left there.
Result<Manifest> ReadManifest(const std::string& folder);
Result<Manifest> ReadPart(const std::string& folder, uint32_t rank);

enum class FolderState {
  kWhole,       // its manifest can be read; its files are not checked
  kDamaged,     // its manifest cannot be read, or is gone though LATEST names the folder
  kNewer,       // a newer version wrote its manifest
  kUnfinished,  // there is no manifest, and no sign that there was one
};
// A folder with a checkpoint's name, whatever it contains.
struct Folder {
  std::string name;
  SavedStep saved;  // from its name
  FolderState state = FolderState::kWhole;
  std::string why;         // why it is not kWhole
  bool is_denied = false;  // kDamaged: this process has no rights to read its manifest
  Manifest manifest;       // if kWhole
};
// All such folders, the highest (generation, branch, step) first. kSystem as for List.
Result<std::vector<Folder>> Folders(Store* store);
// When a file of an unfinished checkpoint was last written, in nanoseconds since 1970. None: the
// checkpoint is finished, because it has a manifest.
Result<std::optional<int64_t>> UnfinishedNs(Store* store, const std::string& name);

// A folder that a restore passed over for an older checkpoint, and why, as a sentence's end.
struct PassedOver {
  std::string name;
  std::string why;
};
std::string Say(const PassedOver& one);  // "passed over step-2-g1: its manifest …"
// Folders that are newer than `taken` or are named by LATEST, and are damaged or in `except`.
// Folders without a manifest are saves in progress and are left out.
Result<std::vector<PassedOver>> PassedOverFor(Store* store, const std::string& taken,
                                              const std::set<std::string>& except = {});

struct Listed {
  std::string name;
  Manifest manifest;
};
// Every checkpoint with a readable manifest, the last saved first (model/retention.h). kSystem: the
// store cannot be read, so it may not be empty.
Result<std::vector<Listed>> List(Store* store);
// The first checkpoint of List that is not in `except`. If there is none but there are damaged
// ones, the last of these with 0 ranks: it exists, but its manifest cannot be read. IsNewer: a
// newer version wrote the newest one, so no job may continue beside it. IsDenied: this process has
// no rights to read the newest one.
Result<std::optional<StoredCheckpoint>> Newest(Store* store,
                                               const std::set<std::string>& except = {});
// The same for a directory of a file system.
Result<std::optional<StoredCheckpoint>> Newest(const std::string& directory);

// One sentence for each defect; empty if every byte is what was saved.
std::vector<std::string> VerifyCheckpoint(Store* store, const std::string& name);

// The key of a file in a checkpoint's folder.
inline std::string KeyOf(const std::string& folder, std::string_view file) {
  return Concat(folder, "/", file);
}

// True if the store does not answer now, so its content is unknown. (An error of one file, such as
// a bad sector, does not count.)
inline bool IsAway(const Failure& failure) {
  return failure.kind == FailureKind::kBusy || failure.kind == FailureKind::kNotOurs;
}

// True if this process has no rights to read that. Unlike damage, a person can change it.
inline bool IsDenied(const Failure& failure) {
  return failure.error_number == EACCES || failure.error_number == EPERM;
}

// The name in LATEST; "" if there is none or it is no checkpoint's name.
Result<std::string> LatestIn(Store* store);

// The fields by which retention and the order of saves compare.
KeptFolder KeptOf(const Listed& one, const std::string& latest);

}  // namespace paceline::ckpt
