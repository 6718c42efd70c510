#pragma once

// A checkpoint as a command line names it, and what the verbs of `paceline ckpt` share.

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

// A checkpoint as it was named: the store that has it, and its own name.
struct NamedCheckpoint {
  std::unique_ptr<ckpt::Store> store;
  ckpt::Listed listed;
  bool is_one = false;  // it was named itself, and not its directory alone
  // Newer folders of the directory that cannot be read.
  std::vector<ckpt::PassedOver> passed_over = {};
  std::string place() const { return store->root() + "/" + listed.name; }
};

// Of a run directory, where its job stores its checkpoints; anything else as it is. PL-E080.
Result<std::string> PlaceNamed(const std::string& path);

// DIR takes its newest one, or that of --step; DIR/step-7-g1 that one; a run directory stands for
// the place of its checkpoints. PL-E080, PL-E081.
Result<NamedCheckpoint> FindCheckpoint(const Invocation& invocation, const std::string& named);

// For people: what of the directory was passed over.
void TellPassedOver(Invocation& invocation, const NamedCheckpoint& named);

// Every folder of DIR that has a checkpoint's name, or those of --step; the one that is named; the
// newest by name first. PL-E080, PL-E081.
struct NamedFolders {
  std::unique_ptr<ckpt::Store> store;
  std::vector<ckpt::Folder> folders;  // never empty
  bool is_one = false;                // a folder or a step was named, and not the directory alone
};
Result<NamedFolders> FindFolders(const Invocation& invocation, const std::string& named);

// Whether a living job saves to the directory. A process of this host is looked at; of another host
// only the time of its claim is seen.
bool HasLivingWriter(ckpt::Store* store);

// A directory, or s3://bucket/prefix. PL-E081.
Result<std::unique_ptr<ckpt::Store>> OpenPlace(const Invocation& invocation,
                                               const std::string& place);

Problem NoCheckpoint(const std::string& path, const std::string& why);
Problem StorageUnreadable(const std::string& path, const Failure& failure);

// The value of --step, when it was given.
std::optional<int64_t> StepOf(const Invocation& invocation);

std::string ShapeText(const std::vector<uint64_t>& shape);  // "10x768", "scalar"

// ---- verbs with a file of their own ----
int CkptDiff(Invocation& invocation, const std::string& one, const std::string& other);
int CkptCopy(Invocation& invocation, const std::string& path, const std::string& target);
int CkptVerify(Invocation& invocation, const std::string& path);
int CkptExport(Invocation& invocation, const std::string& path, const std::string& folder);
int CkptImport(Invocation& invocation, const std::string& source, const std::string& directory);

}  // namespace paceline::cli
