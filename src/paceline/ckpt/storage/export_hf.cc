#include "paceline/ckpt/storage/export_hf.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

#include "paceline/base/fd.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/base/utf8.h"

namespace paceline::ckpt {
namespace {

constexpr uint64_t kBatchBytes = uint64_t{256} << 20;
constexpr char kIndexName[] = "model.safetensors.index.json";

Failure Failed(std::string_view what, const std::string& path, int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT;
  return {is_full ? FailureKind::kFull : FailureKind::kSystem,
          Concat(what, " ", path, ": ", std::strerror(error)), error};
}

// A new file that is written by appending.
class NewFile {
 public:
  static Result<NewFile> Make(const std::string& path) {
    Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd.is_open()) return Failed("cannot make", path, errno);
    return NewFile(std::move(fd), path);
  }

  Result<void> Append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(fd_.get(), bytes.data(), bytes.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return Failed("cannot write", path_, wrote < 0 ? errno : EIO);
      bytes = bytes.subspan(static_cast<size_t>(wrote));
    }
    return {};
  }

  Result<void> Sync() {
    if (::fsync(fd_.get()) != 0) return Failed("cannot sync", path_, errno);
    return {};
  }

 private:
  NewFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Fd fd_;
  std::string path_;
};

Result<void> MakeEmptyFolder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return {};
  if (errno != EEXIST) return Failed("cannot make", path, errno);
  DIR* const open = ::opendir(path.c_str());
  if (open == nullptr) return Failed("cannot open", path, errno);
  bool is_empty = true;
  while (const dirent* entry = ::readdir(open)) {
    const std::string_view name = entry->d_name;
    is_empty = is_empty && (name == "." || name == "..");
  }
  ::closedir(open);
  if (is_empty) return {};
  return Failure{FailureKind::kExists, path + " is not empty"};
}

std::string Padded(size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

std::string TensorFileName(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  return Concat("model-", Padded(index + 1), "-of-", Padded(count), ".safetensors");
}

Result<void> WriteIndex(const std::string& folder, const nlohmann::json& weight_map,
                        uint64_t bytes) {
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", weight_map}};
  const std::string text = PrintJson(index, {.indent = 2}) + "\n";
  ASSIGN_OR_RETURN(NewFile file, NewFile::Make(Concat(folder, "/", kIndexName)));
  RETURN_IF_ERROR(file.Append(std::as_bytes(std::span(text))));
  return file.Sync();
}

// Of torch.compile, activation checkpoints and FSDP.
constexpr std::string_view kWrapperMarks[] = {"_orig_mod", "_checkpoint_wrapped_module",
                                              "_fsdp_wrapped_module"};

std::string WithoutMarks(const std::string& name) {
  bool is_marked = false;
  std::string plain;
  for (const std::string_view part : SplitParts(name, ".")) {
    if (std::ranges::find(kWrapperMarks, part) != std::end(kWrapperMarks)) {
      is_marked = true;
    } else {
      Append(&plain, plain.empty() ? "" : ".", part);
    }
  }
  return is_marked && !plain.empty() ? plain : name;
}

// The tensors of the entry, by the name that each gets in the export, and their names in the
// checkpoint.
struct ChosenTensors {
  std::map<std::string, WholeTensor> tensors;
  std::map<std::string, std::string> keys;
};

Result<ChosenTensors> Chosen(const WholeReader& from, const std::string& entry) {
  std::vector<std::string> names;
  std::set<std::string> entries;
  for (const auto& [key, tensor] : from.tensors()) {
    if (key.starts_with(entry + ".")) {
      names.push_back(key.substr(entry.size() + 1));
    } else {
      entries.insert(key.substr(0, key.find('.')));
    }
  }
  if (!names.empty()) {
    ChosenTensors chosen;
    for (const auto& [exported, name] : ExportedNames(names)) {
      const std::string key = Concat(entry, ".", name);
      chosen.tensors.emplace(exported, from.tensors().at(key));
      chosen.keys.emplace(exported, key);
    }
    return chosen;
  }
  std::string known;
  for (const std::string& name : entries) Append(&known, known.empty() ? "" : ", ", name);
  return Failure{FailureKind::kNotFound,
                 Concat("no tensor is named ", CleanText(entry), ".…; there are ",
                        entries.empty() ? "none at all" : CleanText(known))};
}

Result<void> WriteTensors(WholeReader* from, const ChosenTensors& chosen, const std::string& path) {
  const auto& tensors = chosen.tensors;
  std::vector<TensorBox> boxes;
  for (const auto& [name, tensor] : tensors) {
    boxes.push_back({.key = name, .dtype = tensor.dtype, .shape = tensor.shape});
  }
  ASSIGN_OR_RETURN(const Image layout, LayOut(std::move(boxes), {}));
  ASSIGN_OR_RETURN(NewFile file, NewFile::Make(path));
  RETURN_IF_ERROR(file.Append(std::as_bytes(std::span(layout.head))));
  std::vector<std::byte> buffer;
  // In the order of the names, which is the order in the file.
  for (const std::vector<std::string>& batch : Batches(tensors, kBatchBytes)) {
    uint64_t bytes = 0;
    for (const std::string& name : batch) bytes += tensors.at(name).bytes;
    buffer.resize(bytes);
    std::vector<WholeReader::Wanted> wanted;
    bytes = 0;
    for (const std::string& name : batch) {
      const uint64_t size = tensors.at(name).bytes;
      wanted.push_back({chosen.keys.at(name), std::span(buffer).subspan(bytes, size)});
      bytes += size;
    }
    RETURN_IF_ERROR(from->Read(wanted));
    RETURN_IF_ERROR(file.Append(buffer));
  }
  return file.Sync();
}

}  // namespace

std::map<std::string, std::string> ExportedNames(const std::vector<std::string>& names) {
  std::map<std::string, size_t> counts;
  for (const std::string& name : names) ++counts[WithoutMarks(name)];
  std::map<std::string, std::string> exported;
  for (const std::string& name : names) {
    const std::string plain = WithoutMarks(name);
    exported.emplace(counts[plain] == 1 ? plain : name, name);
  }
  return exported;
}

Result<HfExported> ExportHf(WholeReader* from, const HfExport& how) {
  ASSIGN_OR_RETURN(const auto chosen, Chosen(*from, how.entry));
  RETURN_IF_ERROR(MakeEmptyFolder(how.folder));
  const auto files = Batches(chosen.tensors, how.file_bytes_max);
  const size_t count = chosen.tensors.size();
  HfExported done{.tensors = count, .left_out = from->tensors().size() - count};
  nlohmann::json weight_map = nlohmann::json::object();
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = TensorFileName(i, files.size());
    ChosenTensors batch;
    for (const std::string& key : files[i]) {
      batch.tensors.emplace(key, chosen.tensors.at(key));
      batch.keys.emplace(key, chosen.keys.at(key));
      weight_map[key] = name;
      done.bytes += chosen.tensors.at(key).bytes;
    }
    RETURN_IF_ERROR(WriteTensors(from, batch, Concat(how.folder, "/", name)));
    done.files.push_back(name);
  }
  if (files.size() > 1) RETURN_IF_ERROR(WriteIndex(how.folder, weight_map, done.bytes));
  const Fd folder(::open(how.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open() || ::fsync(folder.get()) != 0) {
    return Failed("cannot sync", how.folder, errno);
  }
  return done;
}

}  // namespace paceline::ckpt
