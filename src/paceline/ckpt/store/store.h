#pragma once

// The interface of a checkpoint store: folders of files below one root. It has only what
// persisting, committing, retention and restoring need. A backend is one file with its header, and
// one row in stores.cc. The suite in store_test.cc checks what each backend must do.
//
// A key is kLatestName or "step-7-g1/MANIFEST.json": plain names with at most one slash.
//
// A store is used by one thread at a time. No call undoes what another one has made durable.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/base/result.h"
#include "paceline/ckpt/disk/pacer.h"
#include "paceline/ckpt/image/restore.h"

namespace paceline::ckpt {

// The file with the newest checkpoint's name.
inline constexpr char kLatestName[] = "LATEST";

// A backend's abilities, as data.
struct StoreTraits {
  std::string_view name;
  // Its files have paths that every process of the host can open: ranks restore from them.
  bool has_paths = false;
  // A folder can be renamed before its files are removed. If not, its manifest is removed first.
  bool has_folders = false;
};

struct StoreEntry {
  std::string name;
  bool is_folder = false;
  uint64_t bytes = 0;
  int64_t changed_ns = 0;  // by the store's wall clock; 0: not known
  // A link to a folder elsewhere. It is read like any folder and never removed.
  bool is_link = false;
};

// Failures of all calls: kFull; kNotFound; kSystem: an error of that one file; kBusy: the store
// does not answer now; kNotOurs: the store refuses these credentials.
class Store {
 public:
  virtual ~Store() = default;
  virtual const StoreTraits& traits() const = 0;
  // The root's name for users; if has_paths, its path.
  virtual const std::string& root() const = 0;

  // Called before anything is written into the folder; may be repeated. kBusy also if the store
  // lost all its content, such as a directory whose file system was unmounted.
  virtual Result<void> MakeFolder(const std::string& folder) = 0;

  // Writes a file of any size and compares each chunk with its hash. Replaces an existing file as a
  // whole, because a manifest may name it already. The bytes are durable on return, the name after
  // SyncNames. kDamaged: the source differs from what was saved.
  virtual Result<void> WriteImage(const std::string& key, ChunkSource* image,
                                  std::span<const uint64_t> hashes, Pacer* pacer) = 0;

  // Makes a second file with the bytes of a durable one, without sending them: another name for it,
  // or a copy made by the store. Replaces `to`. The name is durable after SyncNames. kNotHere: the
  // store cannot; write the file instead. kNotFound.
  virtual Result<void> Link(const std::string& from, const std::string& to) = 0;

  enum class PutMode {
    kReplace,
    kNew,  // kExists if there is one; of two that try, one succeeds
  };
  // Writes a small file: readers see the old or the new content. The name is durable after
  // SyncNames. If an answer was lost, kNew may find its own file, so compare the content.
  virtual Result<void> Put(const std::string& key, std::span<const std::byte> bytes,
                           PutMode mode) = 0;

  // Replaces a file whose content is `from`; of two that try, one succeeds. Stores without such an
  // operation have no file for a moment. kFenced: the content differs. kExists: another file came
  // at that moment.
  virtual Result<void> Exchange(const std::string& key, const std::string& from,
                                std::span<const std::byte> bytes) = 0;

  virtual Result<bool> Has(const std::string& key) = 0;

  // The file's content. kTooLarge: more than `bytes_max` bytes.
  virtual Result<std::string> Get(const std::string& key, uint64_t bytes_max) = 0;
  // The contents of many small files, in their order. A remote store reads many at once. Fails with
  // the first failure.
  virtual Result<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  uint64_t bytes_max) = 0;

  // Opens a file for reading. kDamaged: it has another size. kNotFound.
  virtual Result<std::unique_ptr<ChunkSource>> Open(const std::string& key, uint64_t bytes) = 0;

  // The entries of a folder, sorted by name; "" is the root. A missing folder has none.
  virtual Result<std::vector<StoreEntry>> List(const std::string& folder) = 0;

  // Makes the names in that folder durable; "" is the root.
  virtual Result<void> SyncNames(const std::string& folder) = 0;

  // A missing file is no error.
  virtual Result<void> Remove(const std::string& key) = 0;
  // Renames a folder; only for stores with has_folders.
  virtual Result<void> RenameFolder(const std::string& from, const std::string& to) = 0;
  // Removes an emptied folder, and unfinished uploads to it.
  virtual Result<void> RemoveFolder(const std::string& folder) = 0;
};

inline Result<void> Put(Store* store, const std::string& key, std::string_view text,
                        Store::PutMode mode) {
  return store->Put(key, std::as_bytes(std::span(text)), mode);
}

}  // namespace paceline::ckpt
