#include "paceline/server/table_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "paceline/base/fd.h"
#include "paceline/base/json.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/ps/holding.h"
#include "paceline/server/snapshots.h"

namespace paceline::server {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

// Bytes on their way to a file, in blocks. After a failure nothing more is written.
class BlockWriter {
 public:
  explicit BlockWriter(int fd) : fd_(fd) {}
  void Put(const void* from, size_t bytes) {
    block_.append(static_cast<const char*>(from), bytes);
    if (block_.size() >= kBlockBytes) Flush();
  }
  bool Flush() {
    std::string_view left = block_;
    while (is_ok_ && !left.empty()) {
      const ssize_t sent = ::write(fd_, left.data(), left.size());
      if (sent < 0 && errno == EINTR) continue;
      is_ok_ = sent > 0;
      if (is_ok_) left.remove_prefix(static_cast<size_t>(sent));
    }
    block_.clear();
    return is_ok_;
  }

 private:
  const int fd_;
  bool is_ok_ = true;
  std::string block_;
};

std::string HeaderOf(const ps::TableSpec& spec, uint64_t rows) {
  const uint64_t keys_end = rows * sizeof(int64_t);
  const uint64_t rows_end = keys_end + rows * spec.dim * sizeof(float);
  const nlohmann::ordered_json json = {
      {"__metadata__", {{"format", "pt"}, {"table", ps::EncodeSpec(spec)}}},
      {"keys", {{"dtype", "I64"}, {"shape", {rows}}, {"data_offsets", {0, keys_end}}}},
      {"rows",
       {{"dtype", "F32"}, {"shape", {rows, spec.dim}}, {"data_offsets", {keys_end, rows_end}}}}};
  std::string text = PrintJson(json);
  text.append((8 - text.size() % 8) % 8, ' ');  // the tensors begin at a multiple of eight bytes
  return text;
}

std::optional<uint32_t> TableNamed(const ps::Holding& holding, const std::string& name) {
  for (uint32_t table = 0; table < holding.tables(); ++table) {
    if (holding.Spec(table).name == name) return table;
  }
  return std::nullopt;
}

std::string NamesOf(const ps::Holding& holding) {
  std::vector<std::string> names;
  for (uint32_t table = 0; table < holding.tables(); ++table) {
    names.push_back(holding.Spec(table).name);
  }
  return names.empty() ? "no table" : JoinWith(names, ", ");
}

}  // namespace

absl::StatusOr<TableFile> WriteTableFile(const std::string& directory, const std::string& table,
                                         const std::string& path) {
  ps::Holding holding(ps::Holding::kSalt);
  Snapshots snapshots({.directory = directory, .server = 0, .servers = 1});
  ASSIGN_OR_RETURN(Snapshots::Loaded loaded, snapshots.Load(ShareOf(TableRouting(1), 0), &holding));
  const auto number = TableNamed(holding, table);
  if (!number) {
    return absl::NotFoundError(
        Concat("the snapshots in ", directory, " have ", NamesOf(holding), ", and not ", table));
  }
  const ps::TableSpec& spec = holding.Spec(*number);
  const uint64_t rows = holding.Counts(*number).rows;
  // A name that nobody can foresee: others may write to the folder, too.
  std::string unfinished = Concat(path, ".new-XXXXXX");
  const Fd fd(::mkostemp(unfinished.data(), O_CLOEXEC));
  const auto fail = [&] {
    const absl::Status why =
        absl::UnavailableError(Concat("cannot write ", unfinished, ": ", std::strerror(errno)));
    ::unlink(unfinished.c_str());
    return why;
  };
  if (!fd.is_open()) return fail();
  BlockWriter writer(fd.get());
  const std::string header = HeaderOf(spec, rows);
  const uint64_t header_bytes = header.size();
  writer.Put(&header_bytes, sizeof(header_bytes));
  writer.Put(header.data(), header.size());
  // Both visits have the same order, because nothing changes between them.
  for (uint32_t partition = 0; partition < ps::kPartitions; ++partition) {
    holding.Visit(*number, partition, [&writer](uint64_t key, std::span<const float>) {
      writer.Put(&key, sizeof(key));
    });
  }
  for (uint32_t partition = 0; partition < ps::kPartitions; ++partition) {
    holding.Visit(*number, partition, [&writer](uint64_t, std::span<const float> values) {
      writer.Put(values.data(), values.size_bytes());
    });
  }
  if (!writer.Flush() || ::fchmod(fd.get(), 0644) != 0 || ::fsync(fd.get()) != 0) return fail();
  if (::rename(unfinished.c_str(), path.c_str()) != 0) return fail();
  return TableFile{.rows = rows, .dim = spec.dim, .notes = std::move(loaded.notes)};
}

}  // namespace paceline::server
