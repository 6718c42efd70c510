#include "paceline/cli/show/log_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "paceline/base/fd.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/settings/value.h"
#include "paceline/model/ids.h"
#include "paceline/model/task.h"
#include "paceline/wire/codec/spec_file.h"

namespace paceline::cli {
namespace {

constexpr size_t kReadBytesMax = 4 << 20;
constexpr size_t kDirectoryEntriesMax = 100'000;

// `follow` is O_NOFOLLOW below the root of the logs: in a directory that somebody else made, a link
// could name what only the reader may read.
std::vector<std::string> Entries(const std::string& path, int follow = O_NOFOLLOW) {
  std::vector<std::string> names;
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow));
  if (!fd.is_open()) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(fdopendir(fd.get()), closedir);
  if (directory == nullptr) return names;
  fd.Release();  // the directory closes it
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] != '.' && names.size() < kDirectoryEntriesMax) {
      names.emplace_back(entry->d_name);
    }
  }
  return names;
}

// "rank3.out" or "ps-1.out" as a log file; false for any other name.
bool ReadName(const std::string& name, LogFile* file) {
  const size_t point = name.rfind('.');
  if (point == std::string::npos) return false;
  const std::string kind = name.substr(point + 1);
  const std::optional<Rank> rank = RankOfLogStem(name.substr(0, point));
  if (!rank || (kind != "out" && kind != "err")) return false;
  file->rank = rank->value();
  file->is_error = kind == "err";
  return true;
}

bool Selects(const LogSelection& selection, const LogFile& file) {
  return (selection.rank < 0 || file.rank == selection.rank) &&
         (!selection.errors_only || file.is_error);
}

void AddGeneration(const std::string& folder, const LogFile& origin, const LogSelection& selection,
                   std::vector<LogFile>* files) {
  for (const std::string& name : Entries(folder)) {
    LogFile file = origin;
    file.path = folder + "/" + name;
    if (ReadName(name, &file) && Selects(selection, file)) files->push_back(std::move(file));
  }
}

std::string ReadRange(const std::string& path, uint64_t offset, size_t bytes_max) {
  std::string bytes;
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!file.is_open()) return bytes;
  bytes.resize(bytes_max);
  size_t size = 0;
  while (size < bytes_max) {
    const auto at = static_cast<off_t>(offset + size);
    const ssize_t got = pread(file.get(), bytes.data() + size, bytes_max - size, at);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

// A file that was cut to its limit has a hole in its middle, which reads as zeros.
std::string WithoutHole(std::string_view line) {
  const size_t end = line.find_last_of('\0');
  return std::string(end == std::string_view::npos ? line : line.substr(end + 1));
}

}  // namespace

std::string LogRoot(const std::string& run_dir) {
  const auto spec = wire::ReadSpecFile(run_dir + "/spec.json");
  if (spec.ok() && !spec->launch.log_dir.empty()) return spec->launch.log_dir;
  return run_dir + "/logs";
}

std::vector<LogFile> FindLogFiles(const std::string& root, const LogSelection& selection) {
  std::vector<LogFile> files;
  for (const std::string& node : Entries(root, 0)) {
    if (!selection.node.empty() && node != selection.node) continue;
    for (const std::string& folder : Entries(root + "/" + node)) {
      const auto generation =
          folder.starts_with("g") ? ParseInteger(folder.substr(1)) : std::nullopt;
      if (!generation) continue;
      const auto number = static_cast<int64_t>(WorldNumber(static_cast<uint64_t>(*generation)));
      if (selection.generation >= 0 && number != selection.generation) continue;
      AddGeneration(root + "/" + node + "/" + folder, {.node = node, .generation = *generation},
                    selection, &files);
    }
  }
  if (selection.generation < 0 && selection.is_newest_only) {
    // Of a world, or of each task, which has a generation of its own.
    const auto key = [](const LogFile& file) {
      return IsTask(Rank(static_cast<uint32_t>(file.rank))) ? file.rank : 0;
    };
    std::map<int64_t, int64_t> newest;
    for (const LogFile& file : files) {
      int64_t& known = newest[key(file)];
      known = std::max(known, file.generation);
    }
    std::erase_if(files, [&](const LogFile& file) { return file.generation != newest[key(file)]; });
  }
  std::sort(files.begin(), files.end(), [](const LogFile& a, const LogFile& b) {
    return std::tie(a.node, a.generation, a.rank, a.is_error) <
           std::tie(b.node, b.generation, b.rank, b.is_error);
  });
  return files;
}

LogText ReadLastLines(const std::string& path, size_t lines_max) {
  LogText text{.end = SizeOf(path)};
  const uint64_t begin = text.end > kReadBytesMax ? text.end - kReadBytesMax : 0;
  const std::string tail = ReadRange(path, begin, text.end - begin);
  const std::vector<std::string_view> lines = SplitLines(tail);
  const size_t first = lines.size() > lines_max ? lines.size() - lines_max : 0;
  for (size_t i = first; i < lines.size(); ++i) text.lines.push_back(WithoutHole(lines[i]));
  return text;
}

LogText ReadNewLines(const std::string& path, uint64_t offset) {
  LogText text{.end = offset};
  std::string bytes = ReadRange(path, offset, kReadBytesMax);
  const size_t last_break = bytes.rfind('\n');
  if (last_break != std::string::npos) {
    bytes.resize(last_break + 1);
  } else if (bytes.size() < kReadBytesMax) {
    return text;  // the line goes on
  }
  text.end = offset + bytes.size();
  for (const std::string_view line : SplitLines(bytes)) text.lines.push_back(WithoutHole(line));
  return text;
}

uint64_t SizeOf(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)
             ? static_cast<uint64_t>(status.st_size)
             : 0;
}

}  // namespace paceline::cli
