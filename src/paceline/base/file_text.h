#pragma once

// Small files as text. Every read is bounded; every write is all or nothing.

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace paceline {

// At most `bytes_max` bytes from the start; "" if the file cannot be read.
std::string ReadText(const std::string& path, size_t bytes_max);

// The same, of a file that is no link, and belongs to the caller or to the owner of its folder. For
// secrets in a directory that somebody else may have made: a link there could name a file that only
// the caller may read.
std::string ReadOwnText(const std::string& path, size_t bytes_max);

// At most `bytes_max` bytes from the end.
std::string ReadTail(const std::string& path, size_t bytes_max);

// Writes a temporary file beside `path` and renames it. After a crash of the host the file may be
// empty.
absl::Status ReplaceFile(const std::string& path, std::string_view text, mode_t mode);

// The same, and the file is on the disk when this returns. The sync may wait for other writes to
// the same disk, so use it only for files that are written rarely.
absl::Status ReplaceFileDurably(const std::string& path, std::string_view text, mode_t mode);

// Writes the file that a user named. A regular file is replaced as a whole, and a link to one
// stays. Anything else that exists, such as /dev/stdout or a pipe, is written to and never
// replaced.
absl::Status WriteNamedFile(const std::string& path, std::string_view text, mode_t mode);

// Makes the directory and its parents with `mode`; an existing one is left as it is.
absl::Status MakeDirs(const std::string& path, mode_t mode);

}  // namespace paceline
