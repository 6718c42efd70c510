#pragma once

// Finds the checkpoint that a command line names; functions that all subcommands of `paceline ckpt`
// use.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/store.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/error.h"

namespace paceline::cli {

// A checkpoint: the store that has it, and its name there.
struct NamedCheckpoint {
  std::unique_ptr<ckpt::Store> store;
  ckpt::Listed listed;
  bool is_one = false;  // the command line named the checkpoint, and not only its directory
  // newer folders of the directory that cannot be read
  std::vector<ckpt::PassedOver> passed_over = {};
  std::string place() const { return store->root() + "/" + listed.name; }
};

// If `path` is a run directory: where its job stores checkpoints. Otherwise `path` itself. PL-E080.
Result<std::string> PlaceNamed(const std::string& path);

// DIR gives its newest checkpoint, or that of --step; DIR/step-7-g1 gives that one. A run directory
// is replaced by the directory of its job's checkpoints. PL-E080, PL-E081.
Result<NamedCheckpoint> FindCheckpoint(const Invocation& invocation, const std::string& named);

// Prints which folders of the directory were passed over, and why.
void TellPassedOver(Invocation& invocation, const NamedCheckpoint& named);

// Every folder of DIR that has a checkpoint's name (with --step, of that step), or the named one.
// The newest by name comes first. PL-E080, PL-E081.
struct NamedFolders {
  std::unique_ptr<ckpt::Store> store;
  std::vector<ckpt::Folder> folders;  // never empty
  bool is_one = false;                // a folder or a step was named, and not the directory alone
};
Result<NamedFolders> FindFolders(const Invocation& invocation, const std::string& named);

// Returns true if a living job saves to the directory. If the claim is of this host, its process is
// examined. If it is of another host, only the time of its last renewal is known.
bool HasLivingWriter(ckpt::Store* store);

// Opens a directory or s3://bucket/prefix. PL-E081.
Result<std::unique_ptr<ckpt::Store>> OpenPlace(const Invocation& invocation,
                                               const std::string& place);

Problem NoCheckpoint(const std::string& path, const std::string& why);
// Why nothing is found at that place: there is no such directory, or else `otherwise`.
std::string WhyNothingAt(const std::string& place, const std::string& otherwise);

Problem StorageUnreadable(const std::string& path, const Failure& failure);

// The value of --step, if given.
std::optional<int64_t> StepOf(const Invocation& invocation);

std::string ShapeText(const std::vector<uint64_t>& shape);  // "10x768", "scalar"

// ---- subcommands with a file of their own ----
int CkptDiff(Invocation& invocation, const std::string& one, const std::string& other);
int CkptCopy(Invocation& invocation, const std::string& path, const std::string& target);
int CkptVerify(Invocation& invocation, const std::string& path);
int CkptExport(Invocation& invocation, const std::string& path, const std::string& folder);
int CkptImport(Invocation& invocation, const std::string& source, const std::string& directory);

}  // namespace paceline::cli
