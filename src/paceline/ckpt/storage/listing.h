#pragma once

// Which checkpoints are in a store (ckpt/store/store.h), and whether they are what was saved. What
// writes and removes them is ckpt/storage/storage.h.

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

// The names that checkpoints have: step-1200-g3, step-1200-g3-b1.
bool IsCheckpointName(std::string_view name);

// kInvalid, kDamaged, kNotFound.
Result<Manifest> ReadManifest(Store* store, const std::string& name);
// Of a folder of a file system, which `ReadPart` reads too: what a rank's agent left of its part.
Result<Manifest> ReadManifest(const std::string& folder);
Result<Manifest> ReadPart(const std::string& folder, uint32_t rank);

enum class FolderState {
  kWhole,       // its manifest can be read; its files were not looked at
  kDamaged,     // its manifest cannot be read, or is gone though LATEST names the folder
  kNewer,       // a newer version wrote its manifest
  kUnfinished,  // no manifest, and nothing says that there was one
};
// A folder with the name of a checkpoint, whatever is in it.
struct Folder {
  std::string name;
  SavedStep saved;  // as its name says
  FolderState state = FolderState::kWhole;
  std::string why;    // it is not whole
  Manifest manifest;  // of kWhole
};
// All of them, the highest (generation, branch, step) first. kSystem as of List.
Result<std::vector<Folder>> Folders(Store* store);
// When an unfinished checkpoint was last touched. None: it has a manifest.
Result<std::optional<int64_t>> UnfinishedNs(Store* store, const std::string& name);

// A folder that whoever took an older checkpoint did not take, and why, as a sentence's end.
struct PassedOver {
  std::string name;
  std::string why;
};
std::string Say(const PassedOver& one);  // "passed over step-2-g1: its manifest …"
// Folders that were saved after `taken`, or that LATEST names, and are not whole or are in
// `except`. What has no manifest yet is a save on its way, and left out.
Result<std::vector<PassedOver>> PassedOverFor(Store* store, const std::string& taken,
                                              const std::set<std::string>& except = {});

struct Listed {
  std::string name;
  Manifest manifest;
};
// Every checkpoint with a whole manifest, the one that was saved last first (model/retention.h).
// kSystem: the store cannot be read, which is not the same as an empty one.
Result<std::vector<Listed>> List(Store* store);
// The first of them that is not one of `except`. When there is none, but what LATEST names was
// committed, it is that one, in a world of 0 ranks: its manifest cannot be read, which is not the
// same as nothing. IsNewer: a newer version wrote the newest, so nothing may go on beside it.
Result<std::optional<StoredCheckpoint>> Newest(Store* store,
                                               const std::set<std::string>& except = {});
// Of a directory of a file system.
Result<std::optional<StoredCheckpoint>> Newest(const std::string& directory);

// One sentence for each thing that is wrong; empty: every byte is what was saved.
std::vector<std::string> VerifyCheckpoint(Store* store, const std::string& name);

// The key of a file in a checkpoint's folder.
inline std::string KeyOf(const std::string& folder, std::string_view file) {
  return Concat(folder, "/", file);
}

// The store cannot be asked now, which says nothing about what is in it. (An error of one file,
// such as a bad sector, is that file's.)
inline bool IsAway(const Failure& failure) {
  return failure.kind == FailureKind::kBusy || failure.kind == FailureKind::kNotOurs;
}

// The name in LATEST; "" when there is none, or what it says is no name.
Result<std::string> LatestIn(Store* store);

// What retention and the order of saving look at.
KeptFolder KeptOf(const Listed& one, const std::string& latest);

}  // namespace paceline::ckpt
