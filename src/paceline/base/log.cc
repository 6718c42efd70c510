#include "paceline/base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "paceline/base/fd.h"
#include "paceline/base/hex.h"
#include "paceline/base/status_macros.h"

namespace paceline {
namespace {

constexpr const char* kNames[] = {"info", "warning", "error"};

std::atomic<int> destination = STDERR_FILENO;

// The descriptor of the log file. It is opened once and never closed, because another thread may
// write to it. A later file takes its place under the same number.
std::atomic<int> file_descriptor = -1;

// "2026-01-31T09:00:00.123456Z".
std::string UtcNow() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  std::array<char, 32> date{};
  std::array<char, 64> text{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data(), text.size(), "%s.%06ldZ", date.data(), now.tv_nsec / 1000);
  return text.data();
}

// One write, so that lines of several threads and processes do not mix. What a full disk or a
// closed pipe refuses is lost: there is no other place to say so.
void WriteLine(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(destination, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<size_t>(written));
  }
}

bool IsPlain(char c) { return c > ' ' && c != '"' && c != '=' && c != '\\' && c != '\x7f'; }

void AppendQuoted(std::string_view value, std::string& line) {
  line += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      line += {'\\', c};
    } else if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') {
      line += "\\x" + Hex(static_cast<unsigned char>(c), 2);
    } else {
      line += c;
    }
  }
  line += '"';
}

}  // namespace

std::string FormatLogLine(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    bool plain = !field.value.empty();
    // Bytes above 127 are negative where char is signed. They need no quotes.
    for (const char c : field.value) plain &= static_cast<signed char>(c) < 0 || IsPlain(c);
    if (plain) {
      line += field.value;
    } else {
      AppendQuoted(field.value, line);
    }
  }
  return line;
}

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  std::string line = UtcNow();
  line += ' ';
  line += kNames[static_cast<size_t>(level)];
  line += ' ';
  line += FormatLogLine(event, fields);
  line += '\n';
  WriteLine(line);
}

void LogToStderr() { destination = STDERR_FILENO; }

absl::Status LogToFile(const std::string& path) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  const int old = file_descriptor;
  if (!file.is_open() || (old >= 0 && ::dup3(file.get(), old, O_CLOEXEC) < 0)) {
    return MakeStatus(absl::StatusCode::kUnavailable,
                      "cannot open the log " + path + ": " + std::strerror(errno));
  }
  if (old < 0) file_descriptor = file.Release();
  destination = file_descriptor.load();
  return absl::OkStatus();
}

}  // namespace paceline
