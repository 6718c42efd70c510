#pragma once

// Where checkpoints are kept: folders of files below one root. What persisting, committing,
// retention and restoring need, and nothing more. A backend is one file and one line in stores.cc;
// the suite in store_test.cc says what each has to hold.
//
// A key is kLatestName or "step-7-g1/MANIFEST.json": plain names, with one slash at most.
//
// A store is used by one thread at a time. No call takes back what another one has made durable.

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

// The newest checkpoint's name, in a store that has one.
inline constexpr char kLatestName[] = "LATEST";

// What a backend can do is data.
struct StoreTraits {
  std::string_view name;
  // Its files have paths that any process of the host opens: ranks restore from them.
  bool has_paths = false;
  // A folder can lose its name before its files go. Where it cannot, its manifest goes first.
  bool has_folders = false;
};

struct StoreEntry {
  std::string name;
  bool is_folder = false;
  uint64_t bytes = 0;
  int64_t changed_ns = 0;  // by the store's wall clock; 0: not known
  // A folder that is a link to another place. It is read like any, and never removed.
  bool is_link = false;
};

// All calls: kFull; kNotFound; kSystem: an error of that one file; kBusy: the store cannot be asked
// now; kNotOurs: it lets nobody in who comes with these credentials.
class Store {
 public:
  virtual ~Store() = default;
  virtual const StoreTraits& traits() const = 0;
  // The root as people name it; of has_paths, the path.
  virtual const std::string& root() const = 0;

  // Before anything is written into it. Again: nothing happens. kBusy also: the store has lost all
  // that it had, as a directory whose file system was unmounted.
  virtual Result<void> MakeFolder(const std::string& folder) = 0;

  // A file of any size, each chunk compared with its hash on the way. What is there is replaced by
  // the whole of it: a manifest may name it by then. Its bytes are durable afterwards, its name
  // after SyncNames.
  // kDamaged: the source is not what was saved.
  virtual Result<void> WriteImage(const std::string& key, ChunkSource* image,
                                  std::span<const uint64_t> hashes, Pacer* pacer) = 0;

  // A second file with the bytes of one that is durable, which are not sent once more: another name
  // of it, or a copy that the store makes by itself. What is at `to` is replaced. Its name is
  // durable after SyncNames. kNotHere: this store cannot; write it. kNotFound.
  virtual Result<void> Link(const std::string& from, const std::string& to) = 0;

  enum class PutMode {
    kReplace,
    kNew,  // kExists when there is one; of two that try, one succeeds
  };
  // A small file: readers see all of it or what was there before. Its name is durable after
  // SyncNames. After a lost answer kNew may find its own file: look what is in it.
  virtual Result<void> Put(const std::string& key, std::span<const std::byte> bytes,
                           PutMode mode) = 0;

  // The same over a file that has these very bytes now; of two that try, one succeeds. Where the
  // store has no such thing, there is no file for a moment.
  // kFenced: it has others. kExists: another one came at that moment.
  virtual Result<void> Exchange(const std::string& key, const std::string& from,
                                std::span<const std::byte> bytes) = 0;

  virtual Result<bool> Has(const std::string& key) = 0;

  // kTooLarge: it has more than `bytes_max` bytes.
  virtual Result<std::string> Get(const std::string& key, uint64_t bytes_max) = 0;
  // The same of many small files, in their order; where each costs a way to another machine, many
  // are on it at once. The first that fails is the answer.
  virtual Result<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  uint64_t bytes_max) = 0;

  // kDamaged: it does not have that size. kNotFound.
  virtual Result<std::unique_ptr<ChunkSource>> Open(const std::string& key, uint64_t bytes) = 0;

  // "" is the root. What is in it, sorted by name. A folder that is not there has nothing in it.
  virtual Result<std::vector<StoreEntry>> List(const std::string& folder) = 0;

  // Makes the names durable that were made in that folder; "" is the root.
  virtual Result<void> SyncNames(const std::string& folder) = 0;

  // That it is not there is no error.
  virtual Result<void> Remove(const std::string& key) = 0;
  // has_folders alone: the folder takes another name.
  virtual Result<void> RenameFolder(const std::string& from, const std::string& to) = 0;
  // What is left of a folder that was emptied: the folder itself, uploads that were never ended.
  virtual Result<void> RemoveFolder(const std::string& folder) = 0;
};

inline Result<void> Put(Store* store, const std::string& key, std::string_view text,
                        Store::PutMode mode) {
  return store->Put(key, std::as_bytes(std::span(text)), mode);
}

}  // namespace paceline::ckpt
